// Package pairing lets people in whom no list names: somebody who writes to us
// directly gets a code, and whoever runs the daemon approves it.
//
//	stranger ─► Ask ─► Code ─► (the code is told) ─► Approve ─► paired
//	             │                                      │
//	             └─ silent by a rule                    └─ five wrong codes lock the platform
//
// A code has 40 random bits, holds for an hour, for one person and once. Of a
// code only a salted, slow hash is kept. At most three codes of a platform are
// out at once, and a person gets one in ten minutes, so a crowd of strangers
// costs no more than three strangers do.
//
// All of it stands in the store under one key and survives restarts. Whether a
// person is paired is answered from memory.
package pairing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// The limits of pairing.
const (
	CodeLifetime  = time.Hour        // how long a code holds
	CodeInterval  = 10 * time.Minute // between two codes for one person
	MaxPending    = 3                // codes of a platform that are out at once
	MaxWrongCodes = 5                // wrong codes in a row; the platform is locked by the last one
	LockDuration  = time.Hour        // how long then
)

// The rules by which a direct message of a stranger ends. Only the first has
// anything said to the person.
const (
	RuleOffered = "pairing_offered" // the person is told a code
	RuleRecent  = "pairing_recent"  // the person was told one a moment ago
	RuleFull    = "pairing_full"    // too many codes are out on this platform
	RuleLocked  = "pairing_locked"  // too many wrong codes were entered for this platform
)

// A Store keeps small values. What a method reports as done is on disk.
type Store interface {
	// Value returns the value kept under key, nil if there is none.
	Value(ctx context.Context, key string) ([]byte, error)
	// SetValue keeps a value under key.
	SetValue(ctx context.Context, key string, v []byte) error
}

// A Person is somebody who has asked to be let in, or has been.
type Person struct {
	Platform chat.Platform `json:"platform"`
	ID       string        `json:"id"`
	Name     string        `json:"name,omitempty"` // as the person is called there; untrusted
	At       time.Time     `json:"at"`             // of the request, or of the approval
	// To is where the person asked. It is not known of people who were imported.
	To chat.Address `json:"to,omitzero"`
}

// A personKey is a person's place in the tables.
type personKey struct {
	platform chat.Platform
	id       string
}

func (p Person) who() personKey { return personKey{p.Platform, p.ID} }

// A request is a code that is out.
type request struct {
	Person
	Hash hash `json:"hash"`
}

// A count is the wrong codes of a platform.
type count struct {
	Wrong int       `json:"wrong,omitempty"` // in a row
	Until time.Time `json:"until,omitzero"`  // of the lock
}

// A state is all that is kept. One that has been published does not change.
type state struct {
	People   []Person                `json:"people,omitempty"`
	Pending  []request               `json:"pending,omitempty"`
	Asked    []Person                `json:"asked,omitempty"` // within Apart, also of codes that are no longer out
	Counts   map[chat.Platform]count `json:"counts,omitempty"`
	Imported []string                `json:"imported,omitempty"` // files

	paired map[personKey]bool // of People
}

// index makes paired.
func (s *state) index() *state {
	s.paired = make(map[personKey]bool, len(s.People))
	for _, p := range s.People {
		s.paired[p.who()] = true
	}
	return s
}

// draft returns a copy that may be changed, without what is over at now.
func (s *state) draft(now time.Time) *state {
	d := &state{People: slices.Clone(s.People), Imported: slices.Clone(s.Imported), Counts: make(map[chat.Platform]count)}
	for _, r := range s.Pending {
		if stillValid(r.At, now, CodeLifetime) {
			d.Pending = append(d.Pending, r)
		}
	}
	for _, p := range s.Asked {
		if stillValid(p.At, now, CodeInterval) {
			d.Asked = append(d.Asked, p)
		}
	}
	for p, c := range s.Counts {
		if c.Until.IsZero() || c.locked(now) {
			d.Counts[p] = c
		}
	}
	return d
}

// A Manager knows who is paired and who asks to be. Its methods may be called from
// any goroutine.
type Manager struct {
	store Store
	log   *zap.Logger
	turn  chan struct{} // holds a token while nobody writes
	price int           // of a hash, in rounds
	now   atomic.Pointer[state]

	mu       sync.Mutex         // guards what follows
	reserved map[personKey]bool // asked, and the code is not kept yet
}

var _ access.Pairing = (*Manager)(nil)

const (
	key     = "pairing"
	keyLost = "pairing.damaged"
)

// Open reads what store keeps. If that is damaged nobody is paired: it is set
// aside, and log says so.
func Open(ctx context.Context, store Store, log *zap.Logger) (*Manager, error) {
	if log == nil {
		log = zap.NewNop()
	}
	b := &Manager{store: store, log: log, turn: make(chan struct{}, 1), price: rounds, reserved: make(map[personKey]bool)}
	b.turn <- struct{}{}
	raw, err := store.Value(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read the pairings: %w", err)
	}
	s := &state{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, s); err != nil {
			log.Error("the pairings are damaged: nobody is paired until they are approved again; they were set aside", zap.String("key", keyLost), zap.Error(err))
			if err := store.SetValue(ctx, keyLost, raw); err != nil {
				return nil, fmt.Errorf("set damaged pairings aside: %w", err)
			}
			s = &state{}
		}
	}
	b.now.Store(s.index())
	return b, nil
}

// Paired reports whether a person has been let in and not been revoked since. It
// does not block.
func (b *Manager) Paired(p chat.Platform, id string) bool {
	return b.now.Load().paired[personKey{p, id}]
}

// Request takes note that a stranger has written directly, and returns the rule by
// which the message ends. After RuleOffered the caller calls Code, or Withdraw.
// It does not block.
func (b *Manager) Request(p Person) (rule string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, now, others := b.now.Load(), time.Now(), 0
	for _, r := range s.Pending {
		if r.Platform == p.Platform && r.ID != p.ID && stillValid(r.At, now, CodeLifetime) {
			others++
		}
	}
	for w := range b.reserved {
		if w.platform == p.Platform && w.id != p.ID {
			others++
		}
	}
	switch {
	case s.Counts[p.Platform].locked(now):
		return RuleLocked
	case b.reserved[p.who()], slices.ContainsFunc(s.Asked, func(q Person) bool { return q.who() == p.who() && stillValid(q.At, now, CodeInterval) }):
		return RuleRecent
	case others >= MaxPending:
		return RuleFull
	}
	b.reserved[p.who()] = true
	return RuleOffered
}

// clockSlack is by how much the clock may be corrected without anything being
// thought of it.
const clockSlack = time.Minute

// stillValid reports whether what began at a time and lasts for a span goes on. What
// begins in times to come was noted by a clock that has been set back since, and
// is over: nobody knows how long it has lasted.
func stillValid(at, now time.Time, span time.Duration) bool {
	d := now.Sub(at)
	return -clockSlack < d && d < span
}

// locked reports whether the lock goes on, which no lock does for longer than the
// longest.
func (c count) locked(now time.Time) bool {
	return stillValid(c.Until.Add(-LockDuration), now, LockDuration)
}

// CancelRequest forgets an Ask that came to nothing.
func (b *Manager) CancelRequest(p Person) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reserved, p.who())
}

// IssueCode makes the code for somebody whose Ask returned RuleOffered. An earlier
// code of the same person no longer holds. If it fails the person may ask again
// at once.
func (b *Manager) IssueCode(ctx context.Context, p Person) (code string, err error) {
	defer b.CancelRequest(p) // it is kept by then, or came to nothing
	code = random()
	h := hashOf(code, b.price)
	err = b.change(ctx, func(s *state, now time.Time) error {
		p.At, p.Name = now, clean(p.Name)
		s.Pending = slices.DeleteFunc(s.Pending, func(r request) bool { return r.who() == p.who() })
		s.Pending = append(s.Pending, request{p, h})
		s.Asked = append(s.Asked, Person{Platform: p.Platform, ID: p.ID, At: now})
		return nil
	})
	return code, err
}

// RevokeCode forgets the code of somebody who could not be told it.
func (b *Manager) RevokeCode(ctx context.Context, p Person) error {
	mine := func(q Person) bool { return q.who() == p.who() }
	return b.change(ctx, func(s *state, _ time.Time) error {
		s.Pending = slices.DeleteFunc(s.Pending, func(r request) bool { return mine(r.Person) })
		s.Asked = slices.DeleteFunc(s.Asked, mine)
		return nil
	})
}

// change lets f change a copy of the state, and publishes that once it is on
// disk. One change happens at a time; what f returns is returned, and what it
// has changed is kept even so.
func (b *Manager) change(ctx context.Context, f func(s *state, now time.Time) error) error {
	select {
	case <-b.turn:
		defer func() { b.turn <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("keep the pairings: %w", context.Cause(ctx))
	}
	now := time.Now()
	s := b.now.Load().draft(now)
	said := f(s, now)
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("keep the pairings: %w", err)
	}
	if err := b.store.SetValue(ctx, key, raw); err != nil {
		return fmt.Errorf("keep the pairings: %w", err)
	}
	b.now.Store(s.index())
	return said
}
