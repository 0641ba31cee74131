package pairing

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/chat"
)

// A UserError is an error of a request; its text is shown to the operator.
type UserError struct{ Text string }

func (r *UserError) Error() string { return r.Text }

func userErrorf(format string, args ...any) error { return &UserError{fmt.Sprintf(format, args...)} }

// checkPlatform returns an error for a platform without pairing.
func (b *Manager) checkPlatform(p chat.Platform) error {
	if b.profiles.Of(p).Pairing {
		return nil
	}
	return userErrorf("there is no pairing on %q; it is for %v", p, b.platforms())
}

// platforms returns the platforms on which users can be paired.
func (b *Manager) platforms() []chat.Platform {
	return b.profiles.Which(func(p chat.Profile) bool { return p.Pairing })
}

// Approve authorizes the user to whom code was issued and returns the user. A code that
// is not pending counts as wrong; after MaxWrongCodes wrong codes in a row the platform
// is locked for LockDuration: codes are neither accepted nor issued. The error is a
// *UserError or an error of the store.
func (b *Manager) Approve(ctx context.Context, platform chat.Platform, code string) (p Person, err error) {
	if err := b.checkPlatform(platform); err != nil {
		return p, err
	}
	code, ok := normalizeCode(code)
	if !ok {
		return p, userErrorf("that is not a code: it has %d characters of %s", codeLength, alphabet)
	}
	match := b.current.Load().matching(platform, code)
	err = b.change(ctx, func(s *state, now time.Time) error {
		c := s.Counts[platform]
		if !c.Until.IsZero() {
			return userErrorf("%d wrong codes were entered: no code is taken for %s until %s. `hermesd pairing list` shows ids; who is in allow_from needs no code",
				MaxWrongCodes, platform, c.Until.Local().Format("15:04:05"))
		}
		found := slices.IndexFunc(s.Pending, func(r request) bool {
			return match != nil && r.key() == match.key() && bytes.Equal(r.Hash.Sum, match.Hash.Sum)
		})
		if found < 0 {
			return s.countWrongCode(platform, c, now)
		}
		p = s.Pending[found].Person
		p.At = now
		s.Pending = slices.Delete(s.Pending, found, found+1)
		s.addPaired(p)
		delete(s.Counts, platform)
		return nil
	})
	return p, err
}

// matching returns the pending request to which code was issued, nil if there is none.
// It takes some 20 ms per request, too long for a transaction.
func (s *state) matching(platform chat.Platform, code string) (match *request) {
	for _, r := range s.Pending { // all, so that the time does not reveal which one matched
		if r.Platform == platform && r.Hash.matches(code) {
			match = &r
		}
	}
	return match
}

// countWrongCode counts a wrong code and returns its error.
func (s *state) countWrongCode(platform chat.Platform, c wrongCodes, now time.Time) error {
	if c.Wrong++; c.Wrong >= MaxWrongCodes {
		s.Counts[platform] = wrongCodes{Until: now.Add(LockDuration)}
		return userErrorf("that is not a code of anybody who waits, the %dth in a row: no code is taken for %s until %s", c.Wrong, platform, now.Add(LockDuration).Local().Format("15:04:05"))
	}
	s.Counts[platform] = c
	return userErrorf("that is not a code of anybody who waits on %s: codes hold for an hour, and once. Wrong codes until it is locked for an hour: %d", platform, MaxWrongCodes-c.Wrong)
}

// addPaired adds p to the paired users, replacing an earlier entry.
func (s *state) addPaired(p Person) {
	s.People = append(slices.DeleteFunc(s.People, func(q Person) bool { return q.key() == p.key() }), p)
}

// Revoke removes a paired user and returns the user. It applies from the next message.
// The error is a *UserError if the user is not paired.
func (b *Manager) Revoke(ctx context.Context, platform chat.Platform, id string) (p Person, err error) {
	if err := b.checkPlatform(platform); err != nil {
		return p, err
	}
	err = b.change(ctx, func(s *state, _ time.Time) error {
		i := slices.IndexFunc(s.People, func(q Person) bool { return q.key() == personKey{platform, id} })
		if i < 0 {
			return userErrorf("%s:%s is not paired; `hermesd pairing list` shows who is. Who is in a list of the configuration is let in by that", platform, id)
		}
		p = s.People[i]
		s.People = slices.Delete(s.People, i, i+1)
		return nil
	})
	return p, err
}

// ClearPending invalidates all pending codes and returns their users. CodeInterval still
// applies to them.
func (b *Manager) ClearPending(ctx context.Context) (gone []Person, err error) {
	err = b.change(ctx, func(s *state, _ time.Time) error {
		gone = nil
		for _, r := range s.Pending {
			gone = append(gone, r.Person)
		}
		s.Pending = nil
		return nil
	})
	return gone, err
}

// A List is a snapshot of paired users, pending requests and locked platforms.
type List struct {
	Paired  []Person                    `json:"paired"`
	Pending []Person                    `json:"pending"`
	Locked  map[chat.Platform]time.Time `json:"locked,omitempty"` // end of the lock
}

// List returns the current state, sorted by platform and ID.
func (b *Manager) List() List {
	s := b.current.Load().copyAt(time.Now())
	l := List{Paired: s.People, Pending: []Person{}, Locked: make(map[chat.Platform]time.Time)}
	if l.Paired == nil {
		l.Paired = []Person{}
	}
	for _, r := range s.Pending {
		l.Pending = append(l.Pending, r.Person)
	}
	for p, c := range s.Counts {
		if !c.Until.IsZero() {
			l.Locked[p] = c.Until
		}
	}
	for _, people := range [][]Person{l.Paired, l.Pending} {
		slices.SortFunc(people, func(a, b Person) int {
			return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.ID, b.ID))
		})
	}
	return l
}
