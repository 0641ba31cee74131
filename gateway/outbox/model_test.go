package outbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// A world is one row together with what the platform really has: the two things
// of which the daemon sees only one.
type world struct {
	row outbox.Row
	now time.Time
	// visible counts the messages that people see; plain those of them without
	// the mark, sent although an earlier one might have been there.
	visible, unmarked int
	trail             string
}

// key makes worlds comparable: what differs only in how it came about is one.
func (w world) key() string {
	return fmt.Sprint(w.row.State, w.row.Attempts, w.row.MayBeRepeat, w.row.NextAttempt.Sub(t0), w.now.Sub(t0), w.visible, w.unmarked)
}

// An ending is how one attempt can end: what the platform did, and what came
// back.
type ending struct {
	name    string
	arrives bool
	err     error
}

func endings() []ending {
	refused := &chat.SendError{Outcome: chat.Transient, Reason: "refused"}
	return []ending{
		{"ok", true, nil},
		{"refused", false, refused},
		{"flood", false, &chat.SendError{Outcome: chat.Transient, Reason: "flood", RetryAfter: 7 * time.Hour}},
		{"rejected", false, &chat.SendError{Outcome: chat.Permanent, Reason: "blocked"}},
		{"lost answer", true, &chat.SendError{Outcome: chat.Uncertain, Reason: "no answer"}},
		{"lost request", false, errors.New("connection reset")},
		{"died after", true, outbox.ErrProcessDied},
		{"died before", false, outbox.ErrProcessDied},
	}
}

// A rig is one configuration of the machine.
type rig struct {
	role    outbox.Role
	policy  outbox.UncertainPolicy
	canFind bool
}

// next returns every world that can follow w.
func (g rig) next(w world) (all []world) {
	step := func(trail string, s outbox.Settlement, f func(*world)) {
		n := w
		n.trail += " > " + trail
		if f != nil {
			f(&n)
		}
		n.row.State, n.row.NextAttempt, n.row.MayBeRepeat = s.State, s.NextAttempt, s.MayBeRepeat
		if s.NextAttempt.After(n.now) {
			n.now = s.NextAttempt
		}
		all = append(all, n)
	}
	if w.row.State == outbox.Uncertain {
		if !g.canFind {
			step("resolve", outbox.ResolveUncertain(w.row, w.now, g.policy), nil)
			return all
		}
		step("cannot ask", outbox.Decide(w.row, errors.New("no network"), w.now, g.policy), nil)
		if w.visible > 0 {
			step("found", outbox.Delivered(w.row, chat.Receipt{ID: "1"}), nil)
			return all
		}
		step("not found", outbox.Settlement{State: outbox.NotSent, NextAttempt: w.now}, nil)
		return all
	}
	for _, e := range endings() {
		r := w.row
		r.State = outbox.Attempting
		r.Attempts++
		step(e.name, outbox.Decide(r, e.err, w.now, g.policy), func(n *world) {
			n.row.Attempts = r.Attempts
			if !e.arrives {
				return
			}
			if n.visible > 0 && !r.MayBeRepeat {
				n.unmarked++
			}
			n.visible++
		})
	}
	return all
}

func (g rig) held(r outbox.Row) bool { return r.State == outbox.Uncertain && r.NextAttempt.IsZero() }

// check says what must hold in w, whatever has happened.
func (g rig) check(t *testing.T, w world) {
	t.Helper()
	fail := func(what string) { t.Fatalf("%+v: %s:%s", g, what, w.trail) }
	switch {
	case w.unmarked > 0:
		fail("a second copy was not marked")
	case w.row.State == outbox.Sent && w.visible == 0:
		fail("sent, but nobody has it")
	case g.policy != outbox.Resend && w.visible > 1:
		fail("two copies though the policy forbids it")
	case g.role == outbox.Preview && w.visible > 1:
		fail("a preview was repeated")
	case w.row.State == outbox.NotSent && w.row.NextAttempt.IsZero():
		fail("waits without a time")
	case g.held(w.row) && g.policy != outbox.Hold:
		fail("held without the policy")
	case w.row.State != outbox.Sent && w.row.State != outbox.NotSent && w.row.State != outbox.Uncertain && w.row.State != outbox.Dead && w.row.State != outbox.Queued:
		fail("settled as " + string(w.row.State))
	}
}

// Every sequence of endings, in every configuration, keeps the promises of the
// package; and every row comes to an end in bounded time.
func TestEveryLifeOfARow(t *testing.T) {
	const deepest = 7 // attempts; seven hours of flood each are more than a life
	for _, role := range []outbox.Role{outbox.Reply, outbox.Preview, outbox.Notice} {
		for _, policy := range []outbox.UncertainPolicy{outbox.Resend, outbox.Hold, outbox.Drop} {
			for _, canFind := range []bool{false, true} {
				g := rig{role, policy, canFind}
				seen := map[string]bool{}
				states := map[outbox.State]int{}
				start := world{row: outbox.Row{ID: 3, Role: role, State: outbox.Queued, Created: t0}, now: t0}
				for todo := []world{start}; len(todo) > 0; {
					w := todo[len(todo)-1]
					todo = todo[:len(todo)-1]
					if seen[w.key()] {
						continue
					}
					seen[w.key()] = true
					states[w.row.State]++
					g.check(t, w)
					if w.row.Terminal() || g.held(w.row) {
						continue
					}
					if w.now.Sub(t0) > outbox.MaxRetryTime+7*time.Hour {
						t.Fatalf("%+v: still alive after %v:%s", g, w.now.Sub(t0), w.trail)
					}
					if w.row.Attempts < deepest {
						todo = append(todo, g.next(w)...)
					}
				}
				if states[outbox.Sent] == 0 || states[outbox.Dead] == 0 {
					t.Errorf("%+v: reached only %v", g, states)
				}
				if role == outbox.Reply && len(seen) < 20 {
					t.Errorf("%+v: only %d worlds were seen: the model explores nothing", g, len(seen))
				}
			}
		}
	}
}

// A platform that refuses for as long as it likes ends every row within a day
// and its last wait.
func TestRowsEnd(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, time.Hour} {
		row := outbox.Row{ID: 1, Role: outbox.Reply, State: outbox.NotSent, Created: t0}
		now := t0
		for row.State != outbox.Dead {
			row.Attempts++
			s := outbox.Decide(row, &chat.SendError{Outcome: chat.Transient, RetryAfter: after, Reason: "no"}, now, outbox.Resend)
			if s.State == outbox.NotSent && !s.NextAttempt.After(now) {
				t.Fatalf("attempt %d is due at once: a busy loop", row.Attempts)
			}
			row.State, now = s.State, s.NextAttempt
			if row.State == outbox.NotSent && now.Sub(t0) > outbox.MaxRetryTime+max(after, 5*time.Minute) {
				t.Fatalf("after=%v: tried again %v after it was made", after, now.Sub(t0))
			}
		}
		if row.Attempts < 24 {
			t.Errorf("after=%v: given up after %d attempts", after, row.Attempts)
		}
	}
}
