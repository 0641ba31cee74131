package memory_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/session"
)

// Whatever the provider does, and however often the process ends, each turn of a session
// arrives once and in order if the provider can tell what it has, by itself or with others.
func TestEventsArriveOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(rapid.SampledFrom([]string{"say", "say", "say", "wait", "long", "restart", "reload", "replace", "ok", "down", "lost", "limit", "slow", "pending", "auth"}), 1, 30).Draw(rt, "plan")
		batch := rapid.SampledFrom([]int{0, 3, 100}).Draw(rt, "batch")
		synctest.Test(t, func(t *testing.T) {
			mode, arrived, said := "ok", map[string][]string{}, map[string][]string{}
			accepted, keys := map[string]time.Time{}, map[string]bool{}
			has := func(e provider.Event) bool { return keys[e.Key] }
			var mu sync.Mutex // of all fakes
			locked := func(do func()) {
				mu.Lock()
				defer mu.Unlock()
				do()
			}
			q := newQueue()
			create := func() *fake {
				f := newFake()
				f.about.Batch = provider.Batch{Turns: batch, After: 10 * time.Minute}
				f.sync = func(ctx context.Context, e provider.Event) (r provider.Receipt, err error) {
					mu.Lock()
					how := mode
					mu.Unlock()
					keep := func() {
						keys[e.Key] = true
						for _, m := range e.Messages {
							arrived[e.Scope.Session] = append(arrived[e.Scope.Session], m.Text)
						}
					}
					switch how {
					case "down":
						return r, &provider.Error{Class: provider.Down, Text: "down"}
					case "limit":
						return r, &provider.Error{Class: provider.Limit, Text: "limit", RetryAfter: 3 * time.Minute}
					case "auth":
						return r, &provider.Error{Class: provider.Auth, Text: "auth"}
					case "lost":
						locked(keep)
						return r, &provider.Error{Class: provider.Down, Text: "cut", Sent: true}
					case "slow":
						locked(keep)
						return r, pause(ctx, time.Minute)
					case "pending":
						locked(func() { accepted[e.Key] = time.Now(); keep() })
						return provider.Receipt{Pending: true}, nil
					}
					locked(keep)
					return r, nil
				}
				f.synced = func(e provider.Event, r provider.Receipt) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					if mode == "down" {
						return false, &provider.Error{Class: provider.Down, Text: "down"}
					}
					return has(e) && (!r.Pending || time.Since(accepted[e.Key]) > 5*time.Second), nil
				}
				return f
			}
			connect := func() *bench { return open(t, create(), q, settings()) }
			b := connect()
			var replaced []*fake
			for i, step := range plan {
				switch step {
				case "say":
					id := session.ID(fmt.Sprint("s", i%3))
					question, answer := fmt.Sprint("question ", i), fmt.Sprint("answer ", i)
					events := b.TurnEvents(owner(id, len(said[string(id)])/2, ""), fmt.Sprint(i), question, answer, time.Now())
					said[string(id)] = append(said[string(id)], question, answer)
					b.commit(events[:1])
				case "wait":
					time.Sleep(2 * time.Second)
				case "long":
					time.Sleep(20 * time.Minute)
				case "reload":
					b.Reload()
				case "replace":
					replaced, b.f = append(replaced, b.f), create()
					b.Configure(b.f, settings())
					b.Reload()
				case "restart":
					b.Close()
					time.Sleep(time.Second)
					b = connect()
				default:
					locked(func() { mode = step })
				}
			}
			locked(func() { mode = "ok" })
			later(2 * time.Hour)
			if i := slices.IndexFunc(replaced, func(f *fake) bool { return !f.isClosed() }); i >= 0 {
				t.Errorf("provider %d is not closed", i)
			}
			for id, want := range said {
				if got := arrived[id]; !slices.Equal(got, want) {
					t.Errorf("%s: %q arrived, %q were said", id, got, want)
				}
			}
			if len(q.all()) != 0 {
				t.Errorf("%d events are left", len(q.all()))
			}
		})
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}
