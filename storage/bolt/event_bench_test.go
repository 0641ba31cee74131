package bolt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// BenchmarkTurnEvent measures the same turns as BenchmarkTurn, without and with one event
// that is told and settled.
func BenchmarkTurnEvent(b *testing.B) {
	doc := []byte(`"` + strings.Repeat("x", 2000) + `"`)
	for _, mode := range []string{"without", "with", "settled"} {
		b.Run(mode, func(b *testing.B) {
			var written int64
			s := openWith(b, b.TempDir(), bolt.Options{OnCommit: func(_ time.Duration, bytes int64) { written += bytes }})
			n := 0
			for b.Loop() {
				lane := inbox.Lane(fmt.Sprint("lane", n%10))
				m := turnCommit(lane, session.ID("s-"+lane), n/10)
				m.Rows = nil
				if mode != "without" {
					m.Events = []store.Event{{Queue: "q", Key: fmt.Sprint(n), Group: string(lane), Doc: doc}}
				}
				must[[]store.Acceptance](b)(s.Accept(b.Context(), []store.Admission{{Entry: event(lane, fmt.Sprint(n), "a question")}}))
				c := must[store.Claim](b)(s.Claim(b.Context(), lane, 0))
				must[[]outbox.Row](b)(s.CommitTurn(b.Context(), c, m))
				if mode == "settled" {
					tellNext(b, s)
				}
				n++
			}
			ok(b, s.Close())
			b.ReportMetric(float64(written)/float64(b.N)/1024, "KiB/op")
			reportCommits(b, s)
		})
	}
}

// tellNext settles the first event of queue "q" as done.
func tellNext(b *testing.B, s *bolt.Store) {
	b.Helper()
	due, _, err := s.NextEvents(b.Context(), "q", 2)
	ok(b, err)
	ok(b, s.SettleEvent(b.Context(), store.EventSettlement{Queue: "q", ID: due[0].ID, Done: true}))
}

// BenchmarkTellEvents measures the telling of one event when n are queued, in one group
// and in many.
func BenchmarkTellEvents(b *testing.B) {
	for _, n := range []int{2_000, 20_000} {
		for _, groups := range []int{1, n} {
			b.Run(fmt.Sprintf("%d in %d groups", n, groups), func(b *testing.B) {
				s := open(b, b.TempDir())
				events := make([]store.Event, n)
				for i := range events {
					events[i] = newEvent(fmt.Sprint(i%groups), fmt.Sprint(i))
				}
				tell(b, s, events...)
				i := n
				for b.Loop() {
					tellNext(b, s)
					tell(b, s, newEvent(fmt.Sprint(i%groups), fmt.Sprint(i))) // so that n stay
					i++
				}
			})
		}
	}
}

// BenchmarkDrainEvents measures the telling of all of 20,000 events.
func BenchmarkDrainEvents(b *testing.B) {
	const n = 20_000
	for _, groups := range []int{1, 100, n} {
		b.Run(fmt.Sprint(groups, " groups"), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := open(b, b.TempDir())
				events := make([]store.Event, n)
				for i := range events {
					events[i] = newEvent(fmt.Sprint(i%groups), fmt.Sprint(i))
				}
				tell(b, s, events...)
				b.StartTimer()
				began := time.Now()
				for range n {
					tellNext(b, s)
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/n, "µs/event")
				if left := s.EventCounts("q"); left != (store.EventCounts{}) {
					b.Errorf("left are %+v", left)
				}
				ok(b, s.Close())
			}
		})
	}
}
