// Package pairing grants access to users who are on no allowlist: an unknown sender of a
// direct message gets a code, which the operator approves.
//
//	unknown sender ─► Offer ─► (the code is stored and sent) ─► Approve ─► paired
//	                    │                                         │
//	                    └─ no answer, by a rule                   └─ five wrong codes lock the platform
//
// A code has 40 random bits and is valid for one hour, for one user, once. Only a
// salted, slow hash of it is stored. At most three codes per platform are pending, and a
// user gets at most one in ten minutes, so that many unknown senders cost no more than
// three.
//
// The main type is Manager. Its state is stored under one key and survives restarts;
// whether a user is paired is answered from memory. Storing an offered code, in the
// write that stores the message with it, and sending that message is up to the caller.
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
	"hermesd/gateway/store"
)

// Limits of pairing codes.
const (
	CodeLifetime  = time.Hour        // validity of a code
	CodeInterval  = 10 * time.Minute // minimum time between two codes for one user
	MaxPending    = 3                // pending codes per platform
	MaxWrongCodes = 5                // consecutive wrong codes that lock the platform
	LockDuration  = time.Hour        // duration of the lock
)

// The rules that end a direct message of an unknown sender. The sender gets an answer
// only with RuleOffered.
const (
	RuleOffered = "pairing_offered" // the sender gets a code
	RuleRecent  = "pairing_recent"  // the sender got a code within CodeInterval
	RuleFull    = "pairing_full"    // MaxPending codes are pending on this platform
	RuleLocked  = "pairing_locked"  // the platform is locked after wrong codes
)

// A Person is a user who requested pairing or is paired.
type Person struct {
	Platform chat.Platform `json:"platform"`
	ID       string        `json:"id"`
	Name     string        `json:"name,omitempty"` // display name on the platform; untrusted
	At       time.Time     `json:"at"`             // of the request, or of the approval
	// To is the address of the request; the zero Address for imported users.
	To chat.Address `json:"to,omitzero"`
}

// A personKey identifies a person.
type personKey struct {
	platform chat.Platform
	id       string
}

func (p Person) key() personKey { return personKey{p.Platform, p.ID} }

// A request is a pending code.
type request struct {
	Person
	Hash hash `json:"hash"`
}

// A wrongCodes counts the wrong codes of a platform, or holds its lock.
type wrongCodes struct {
	Wrong int       `json:"wrong,omitempty"` // in a row
	Until time.Time `json:"until,omitzero"`  // of the lock
}

// A state is everything that is stored. A published state is immutable.
type state struct {
	People   []Person                     `json:"people,omitempty"`
	Pending  []request                    `json:"pending,omitempty"`
	Asked    []Person                     `json:"asked,omitempty"` // within CodeInterval, including codes that are no longer pending
	Counts   map[chat.Platform]wrongCodes `json:"counts,omitempty"`
	Imported []string                     `json:"imported,omitempty"` // names of imported files

	paired map[personKey]bool // of People
	change uint64             // increases with each change
}

// buildIndex builds paired and returns s.
func (s *state) buildIndex() *state {
	s.paired = make(map[personKey]bool, len(s.People))
	for _, p := range s.People {
		s.paired[p.key()] = true
	}
	return s
}

// copyAt returns a copy that may be changed, without entries that have expired at now.
func (s *state) copyAt(now time.Time) *state {
	d := &state{People: slices.Clone(s.People), Imported: slices.Clone(s.Imported), Counts: make(map[chat.Platform]wrongCodes)}
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

// A Manager issues and approves pairing codes and stores the paired users. Its methods
// may be called from any goroutine.
type Manager struct {
	store      store.Values
	profiles   chat.Profiles // of the platforms with pairing at least
	log        *zap.Logger
	hashRounds int           // rounds of a new hash
	changes    atomic.Uint64 // number of changes so far
	current    atomic.Pointer[state]

	mu       sync.Mutex         // guards reserved, and stores to current
	reserved map[personKey]bool // offered, and the code is not stored yet
}

var _ access.Pairing = (*Manager)(nil)

// StoreKey is the key of the state.
const StoreKey = "pairing"

const damagedStoreKey = "pairing.damaged"

// Open loads the state from values. If it cannot be decoded it is logged and copied to
// another key, and no user is paired.
func Open(ctx context.Context, values store.Values, profiles chat.Profiles, log *zap.Logger) (*Manager, error) {
	b := &Manager{store: values, profiles: profiles, log: log, hashRounds: rounds, reserved: make(map[personKey]bool)}
	raw, err := values.Value(ctx, StoreKey)
	if err != nil {
		return nil, fmt.Errorf("load pairings: %w", err)
	}
	s := &state{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, s); err != nil {
			log.Error("cannot decode pairings; the damaged data is kept and all users must pair again", zap.String("key", damagedStoreKey), zap.Error(err))
			if err := values.SetValue(ctx, damagedStoreKey, raw); err != nil {
				return nil, fmt.Errorf("store damaged pairings: %w", err)
			}
			s = &state{}
		}
	}
	b.current.Store(s.buildIndex())
	return b, nil
}

// Paired reports whether a user is paired. It does not block.
func (b *Manager) Paired(p chat.Platform, id string) bool {
	return b.current.Load().paired[personKey{p, id}]
}

// An Offer is a new code for an unknown user. It is valid once the value under StoreKey
// has been changed by Change. Then Issued must be called, or Cancel if it never will be.
type Offer struct {
	Code string

	manager *Manager
	person  Person
	hash    hash
	changed *state // by the last call of Change
}

// Offer answers a direct message of an unknown sender with the rule that ends it, and
// with a new code if that is RuleOffered. Until the offer ends, the sender gets no
// other one.
func (b *Manager) Offer(p Person) (o *Offer, rule string) {
	if rule := b.reserve(p); rule != RuleOffered {
		return nil, rule
	}
	o = &Offer{Code: newCode(), manager: b, person: p}
	o.person.Name = cleanName(p.Name)
	o.hash = newHash(o.Code, b.hashRounds)
	return o, RuleOffered
}

// reserve returns the rule for a message of p. RuleOffered reserves a code for p.
func (b *Manager) reserve(p Person) (rule string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, now, others := b.current.Load(), time.Now(), 0
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
	case b.reserved[p.key()], slices.ContainsFunc(s.Asked, func(q Person) bool { return q.key() == p.key() && stillValid(q.At, now, CodeInterval) }):
		return RuleRecent
	case others >= MaxPending:
		return RuleFull
	}
	b.reserved[p.key()] = true
	return RuleOffered
}

// clockTolerance is the largest backward correction of the clock that is tolerated.
const clockTolerance = time.Minute

// stillValid reports whether a period that began at a time and lasts for span has not
// ended at now. A period that begins in the future was recorded before the clock was set
// back; it counts as ended, because its age is unknown.
func stillValid(at, now time.Time, span time.Duration) bool {
	d := now.Sub(at)
	return -clockTolerance < d && d < span
}

// locked reports whether the lock is in effect. No lock lasts longer than LockDuration,
// even if the clock was set back.
func (c wrongCodes) locked(now time.Time) bool {
	return stillValid(c.Until.Add(-LockDuration), now, LockDuration)
}

// Change returns the stored state with the code of the offer, which invalidates an
// earlier code of the user.
func (o *Offer) Change(stored []byte) (raw []byte, err error) {
	o.changed, raw, err = o.manager.edit(stored, func(s *state, now time.Time) {
		p := o.person
		p.At = now
		s.Pending = slices.DeleteFunc(s.Pending, func(r request) bool { return r.key() == p.key() })
		s.Pending = append(s.Pending, request{p, o.hash})
		s.Asked = append(s.Asked, Person{Platform: p.Platform, ID: p.ID, At: now})
	})
	return raw, err
}

// Issued ends an offer whose last Change was stored.
func (o *Offer) Issued() {
	o.manager.publish(o.changed)
	o.Cancel()
}

// Cancel ends an offer that was not stored. The user may get another one at once.
func (o *Offer) Cancel() {
	o.manager.mu.Lock()
	defer o.manager.mu.Unlock()
	delete(o.manager.reserved, o.person.key())
}

// change calls f with a copy of the state, stores the copy and publishes it. f may be
// called more than once. It returns the error of f; the changes of f are stored even
// then.
func (b *Manager) change(ctx context.Context, f func(s *state, now time.Time) error) (err error) {
	var next *state
	var result error
	err = b.store.EditValue(ctx, StoreKey, func(stored []byte) (raw []byte, err error) {
		next, raw, err = b.edit(stored, func(s *state, now time.Time) { result = f(s, now) })
		return raw, err
	})
	if err != nil {
		return fmt.Errorf("store pairings: %w", err)
	}
	b.publish(next)
	return result
}

// edit returns the stored state as changed by f, also encoded. If the stored state is
// lost, it starts from the published one.
func (b *Manager) edit(stored []byte, f func(s *state, now time.Time)) (*state, []byte, error) {
	s, now := &state{}, time.Now()
	if len(stored) == 0 || json.Unmarshal(stored, s) != nil {
		s = b.current.Load()
	}
	s = s.copyAt(now)
	f(s, now)
	s.change = b.changes.Add(1)
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, nil, fmt.Errorf("encode pairings: %w", err)
	}
	return s, raw, nil
}

// publish makes s the current state, unless a later one is: each includes those that
// were stored before it.
func (b *Manager) publish(s *state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.change > b.current.Load().change {
		b.current.Store(s.buildIndex())
	}
}
