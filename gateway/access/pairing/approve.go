package pairing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/chat"
)

// A UserError says in a sentence why something was not done.
type UserError struct{ Text string }

func (r *UserError) Error() string { return r.Text }

func refuse(format string, args ...any) error { return &UserError{fmt.Sprintf(format, args...)} }

// Platforms are those on which people can be paired.
func Platforms() []chat.Platform { return []chat.Platform{chat.Discord, chat.Slack, chat.Telegram} }

// known refuses a platform on which nobody can be paired.
func known(p chat.Platform) error {
	if slices.Contains(Platforms(), p) {
		return nil
	}
	return refuse("there is no pairing on %q; it is for %v", p, Platforms())
}

// Approve lets in the person who was told code, and returns whom. A code that is
// not out counts as wrong; after MaxWrong of them in a row no code of the
// platform is taken or given for a while. What goes wrong is a *Refusal, or an
// error of the store.
func (b *Manager) Approve(ctx context.Context, platform chat.Platform, code string) (p Person, err error) {
	if err := known(platform); err != nil {
		return p, err
	}
	code, ok := normalizeCode(code)
	if !ok {
		return p, refuse("that is not a code: it has %d characters of %s", size, alphabet)
	}
	err = b.change(ctx, func(s *state, now time.Time) error {
		c := s.Counts[platform]
		if !c.Until.IsZero() {
			return refuse("%d wrong codes were entered: no code is taken for %s until %s. `hermesd pairing list` shows ids; who is in allow_from needs no code",
				MaxWrongCodes, platform, c.Until.Local().Format("15:04:05"))
		}
		found := -1
		for i, r := range s.Pending { // all of them, so that the time does not tell which
			if r.Platform == platform && r.Hash.matches(code) {
				found = i
			}
		}
		if found < 0 {
			return s.wrong(platform, c, now)
		}
		p = s.Pending[found].Person
		p.At = now
		s.Pending = slices.Delete(s.Pending, found, found+1)
		s.admit(p)
		delete(s.Counts, platform)
		return nil
	})
	return p, err
}

// wrong counts a wrong code.
func (s *state) wrong(platform chat.Platform, c count, now time.Time) error {
	if c.Wrong++; c.Wrong >= MaxWrongCodes {
		s.Counts[platform] = count{Until: now.Add(LockDuration)}
		return refuse("that is not a code of anybody who waits, the %dth in a row: no code is taken for %s until %s", c.Wrong, platform, now.Add(LockDuration).Local().Format("15:04:05"))
	}
	s.Counts[platform] = c
	return refuse("that is not a code of anybody who waits on %s: codes hold for an hour, and once. %d more wrong ones lock it for an hour", platform, MaxWrongCodes-c.Wrong)
}

// admit adds p, in the place of what was known of p before.
func (s *state) admit(p Person) {
	s.People = append(slices.DeleteFunc(s.People, func(q Person) bool { return q.who() == p.who() }), p)
}

// Revoke takes back what Approve did: the person's next message is a stranger's.
func (b *Manager) Revoke(ctx context.Context, platform chat.Platform, id string) (p Person, err error) {
	if err := known(platform); err != nil {
		return p, err
	}
	err = b.change(ctx, func(s *state, _ time.Time) error {
		i := slices.IndexFunc(s.People, func(q Person) bool { return q.who() == personKey{platform, id} })
		if i < 0 {
			return refuse("%s:%s is not paired; `hermesd pairing list` shows who is. Who is in a list of the configuration is let in by that", platform, id)
		}
		p = s.People[i]
		s.People = slices.Delete(s.People, i, i+1)
		return nil
	})
	return p, err
}

// ClearPending makes all codes that are out worthless, and returns whose they were.
// These people can ask again as if their codes still held.
func (b *Manager) ClearPending(ctx context.Context) (gone []Person, err error) {
	err = b.change(ctx, func(s *state, _ time.Time) error {
		for _, r := range s.Pending {
			gone = append(gone, r.Person)
		}
		s.Pending = nil
		return nil
	})
	return gone, err
}

// A List is who is paired, who waits, and which platforms are locked until when.
type List struct {
	Paired  []Person                    `json:"paired"`
	Pending []Person                    `json:"pending"`
	Locked  map[chat.Platform]time.Time `json:"locked,omitempty"`
}

// List returns what is known now, by platform and id.
func (b *Manager) List() List {
	s := b.now.Load().draft(time.Now())
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
