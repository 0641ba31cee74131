package outbox_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// A modelState is one row together with the messages that the platform really has,
// which the daemon cannot see.
type modelState struct {
	row outbox.Row
	now time.Time
	// visible counts the messages that users see; unmarked counts those of them that
	// were sent without the repeat notice although an earlier one was visible.
	visible, unmarked int
	trail             string
}

// key returns a key for equal states, whatever led to them.
func (w modelState) key() string {
	return fmt.Sprint(w.row.State, w.row.Attempts, w.row.MayBeRepeat, w.row.NextAttempt.Sub(t0), w.now.Sub(t0), w.visible, w.unmarked)
}

// An attemptResult is one way in which an attempt can end: whether the message
// arrives, and the error of the adapter.
type attemptResult struct {
	name    string
	arrives bool
	err     error
}

func attemptResults() []attemptResult {
	refused := &chat.SendError{Outcome: chat.Transient, Reason: "refused"}
	return []attemptResult{
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

// A modelConfig is one configuration of the state machine.
type modelConfig struct {
	role    outbox.Role
	policy  outbox.UncertainPolicy
	canFind bool
}

// next returns all states that can follow w.
func (g modelConfig) next(w modelState) (all []modelState) {
	step := func(trail string, s outbox.Settlement, f func(*modelState)) {
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
	for _, e := range attemptResults() {
		r := w.row
		r.State = outbox.Attempting
		r.Attempts++
		step(e.name, outbox.Decide(r, e.err, w.now, g.policy), func(n *modelState) {
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

func (g modelConfig) isHeld(r outbox.Row) bool {
	return r.State == outbox.Uncertain && r.NextAttempt.IsZero()
}

// check fails the test if w violates an invariant.
func (g modelConfig) check(t *testing.T, w modelState) {
	t.Helper()
	fail := func(what string) { t.Fatalf("%+v: %s:%s", g, what, w.trail) }
	switch {
	case w.unmarked > 0:
		fail("a second copy was not marked")
	case w.row.State == outbox.Sent && w.visible == 0:
		fail("sent, but not visible")
	case g.policy != outbox.Resend && w.visible > 1:
		fail("two copies though the policy forbids it")
	case g.role == outbox.Preview && w.visible > 1:
		fail("a preview was repeated")
	case w.row.State == outbox.NotSent && w.row.NextAttempt.IsZero():
		fail("not sent, without a next attempt")
	case g.isHeld(w.row) && g.policy != outbox.Hold:
		fail("held without the policy")
	case w.row.State != outbox.Sent && w.row.State != outbox.NotSent && w.row.State != outbox.Uncertain && w.row.State != outbox.Dead && w.row.State != outbox.Queued:
		fail("settled as " + string(w.row.State))
	}
}

// Every sequence of attempt results, in every configuration, keeps the invariants of
// the package, and every row becomes terminal in bounded time.
func TestRowLifecycleInvariants(t *testing.T) {
	const maxAttempts = 7 // seven waits of seven hours exceed MaxRetryTime
	for _, role := range []outbox.Role{outbox.Reply, outbox.Preview, outbox.Notice} {
		for _, policy := range []outbox.UncertainPolicy{outbox.Resend, outbox.Hold, outbox.Drop} {
			for _, canFind := range []bool{false, true} {
				g := modelConfig{role, policy, canFind}
				seen := map[string]bool{}
				states := map[outbox.State]int{}
				start := modelState{row: outbox.Row{ID: 3, Role: role, State: outbox.Queued, Created: t0}, now: t0}
				for todo := []modelState{start}; len(todo) > 0; {
					w := todo[len(todo)-1]
					todo = todo[:len(todo)-1]
					if seen[w.key()] {
						continue
					}
					seen[w.key()] = true
					states[w.row.State]++
					g.check(t, w)
					if w.row.Terminal() || g.isHeld(w.row) {
						continue
					}
					if w.now.Sub(t0) > outbox.MaxRetryTime+7*time.Hour {
						t.Fatalf("%+v: still alive after %v:%s", g, w.now.Sub(t0), w.trail)
					}
					if w.row.Attempts < maxAttempts {
						todo = append(todo, g.next(w)...)
					}
				}
				if states[outbox.Sent] == 0 || states[outbox.Dead] == 0 {
					t.Errorf("%+v: reached only %v", g, states)
				}
				if role == outbox.Reply && len(seen) < 20 {
					t.Errorf("%+v: only %d states were seen: the model explores nothing", g, len(seen))
				}
			}
		}
	}
}

// A row that is always refused becomes dead within MaxRetryTime and its last wait.
func TestRowExpiresWhenAlwaysRefused(t *testing.T) {
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
				t.Fatalf("after=%v: retried %v after it was created", after, now.Sub(t0))
			}
		}
		if row.Attempts < 24 {
			t.Errorf("after=%v: dead after %d attempts", after, row.Attempts)
		}
	}
}
