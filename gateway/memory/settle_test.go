package memory_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/session"
)

// settlements returns when events were settled, in milliseconds after began, each time once.
func settlements(q *queue, began time.Time) []int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []int64
	for _, at := range q.settled {
		list = append(list, at.Sub(began).Milliseconds())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Events of several sessions are settled at the same time, so that the store commits once.
func TestSettlementsAreShared(t *testing.T) {
	for name, c := range map[string]struct {
		exact bool
		slow  string // a session whose events take a minute
		want  []int64
	}{
		"sixteen at a time":     {true, "", []int64{8, 10}},
		"one does not answer":   {true, "s0", []int64{16, 37, 60_000}},
		"it cannot tell events": {false, "", []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, q := newFake(), newQueue()
				f.about.Exact = c.exact
				f.sync = func(ctx context.Context, e provider.Event) (provider.Receipt, error) {
					if e.Scope.Session == c.slow {
						return provider.Receipt{}, pause(ctx, time.Minute)
					}
					return provider.Receipt{}, pause(ctx, time.Millisecond)
				}
				b := open(t, f, q, settings())
				later(0)
				began := time.Now()
				for i := range 20 {
					b.say(session.ID(fmt.Sprint("s", i)), "one")
				}
				later(2 * time.Minute)
				if got := settlements(q, began); !slices.Equal(got, c.want) || len(f.texts()) != 20 || f.most != 2 {
					t.Errorf("settled after %v ms, %d told, %d at the same time", got, len(f.texts()), f.most)
				}
			})
		})
	}
}

// What was told and waits to be settled is settled when the Service is closed.
func TestCloseSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		f.sync = func(ctx context.Context, e provider.Event) (provider.Receipt, error) {
			if e.Scope.Session == "slow" {
				return provider.Receipt{}, pause(ctx, time.Minute)
			}
			return provider.Receipt{}, nil
		}
		b := open(t, f, q, settings())
		b.say("slow", "one")
		b.say("quick", "two")
		later(time.Millisecond)
		began := time.Now()
		if n := len(settlements(q, began)); n != 0 {
			t.Errorf("%d are settled", n)
		}
		go b.Close()
		synctest.Wait()
		if got := settlements(q, began); !slices.Equal(got, []int64{0}) {
			t.Errorf("settled after %v ms", got)
		}
		later(time.Minute)
	})
}
