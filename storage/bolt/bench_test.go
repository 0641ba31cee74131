package bolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// BenchmarkFsync measures one fsync of a written page: the lower bound of all
// other results.
func BenchmarkFsync(b *testing.B) {
	f := must[*os.File](b)(os.Create(filepath.Join(b.TempDir(), "f")))
	defer func() { ok(b, f.Close()) }()
	page := make([]byte, 4096)
	for b.Loop() {
		must[int](b)(f.WriteAt(page, 0))
		ok(b, f.Sync())
	}
}

func BenchmarkAccept(b *testing.B) {
	s := open(b, b.TempDir())
	n := 0
	for b.Loop() {
		n++
		must[[]store.Acceptance](b)(s.Accept(b.Context(), []store.Admission{{Entry: event(inbox.Lane(fmt.Sprint(n%100)), fmt.Sprint(n), "a question of usual length, more or less")}}))
	}
	reportCommits(b, s)
}

func BenchmarkAccept64(b *testing.B) {
	s := open(b, b.TempDir())
	var n atomic.Int64
	b.SetParallelism(32) // times GOMAXPROCS
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			if _, err := s.Accept(context.Background(), []store.Admission{{Entry: event(inbox.Lane(fmt.Sprint(i%100)), fmt.Sprint(i), "a question of usual length, more or less")}}); err != nil {
				b.Error(err)
			}
		}
	})
	reportCommits(b, s)
}

// BenchmarkTurn measures complete turns without tools, one after the other.
func BenchmarkTurn(b *testing.B) {
	s := open(b, b.TempDir())
	n := 0
	for b.Loop() {
		lane := inbox.Lane(fmt.Sprint("lane", n%10))
		runTurn(b, s, lane, session.ID("s-"+lane), n/10)
		n++
	}
	reportCommits(b, s)
}

// BenchmarkTurn64 measures the same in 64 sessions at once.
func BenchmarkTurn64(b *testing.B) {
	s := open(b, b.TempDir())
	var g atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		lane := inbox.Lane(fmt.Sprint("lane", g.Add(1)))
		for n := 0; pb.Next(); n++ {
			if err := runTurnInOwnChat(s, lane, n); err != nil {
				b.Error(err)
				return
			}
		}
	})
	reportCommits(b, s)
}

// runTurnInOwnChat runs a turn that answers to an address used by no other
// lane.
func runTurnInOwnChat(s *bolt.Store, lane inbox.Lane, n int) error {
	ctx := context.Background()
	to := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: string(lane)}
	if _, err := s.Accept(ctx, []store.Admission{{Entry: event(lane, fmt.Sprintf("%s-%d", lane, n), "a question")}}); err != nil {
		return err
	}
	c, err := s.Claim(ctx, lane, 0)
	if err != nil {
		return err
	}
	m := turnCommit(lane, session.ID("s-"+lane), n)
	m.Rows[0].Msg.To = to
	if _, err := s.CommitTurn(ctx, c, m); err != nil {
		return err
	}
	r, _, _, err := s.Next(ctx, to)
	if err != nil {
		return err
	}
	return s.Settle(ctx, outbox.Settlement{ID: r.ID, State: outbox.Sent})
}

func reportCommits(b *testing.B, s *bolt.Store) {
	b.ReportMetric(float64(s.Stats().Commits)/float64(b.N), "commits/op")
}

// createSessions fills a store with n sessions of two turns each.
func createSessions(t testing.TB, dir string, n int) {
	t.Helper()
	s := open(t, dir)
	var wg sync.WaitGroup
	for g := range 250 {
		wg.Go(func() {
			for i := g; i < n; i += 250 {
				for turn := range 2 {
					if err := runTurnInOwnChat(s, inbox.Lane(fmt.Sprint("agent:main:telegram:dm:", i)), turn); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	ok(t, s.Close())
}

// BenchmarkOpen10k measures the opening of a store with 10,000 sessions.
func BenchmarkOpen10k(b *testing.B) {
	dir := b.TempDir()
	createSessions(b, dir, 10_000)
	info := must[os.FileInfo](b)(os.Stat(storePath(dir)))
	for b.Loop() {
		s := must[*bolt.Store](b)(bolt.Open(b.Context(), storePath(dir), bolt.Options{}))
		ok(b, s.Close())
	}
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
}

// TestTurnCostsFourCommits checks the budget: accept, claim, commit including
// the first attempt, receipt.
func TestTurnCostsFourCommits(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	runTurn(t, s, "lane", "s1", 0)
	before := s.Stats().Commits
	runTurn(t, s, "lane", "s1", 1)
	if n := s.Stats().Commits - before; n != 4 {
		t.Errorf("%d commits, want 4", n)
	}
	before = s.Stats().Commits
	if c := must[store.Claim](t)(s.Claim(t.Context(), "lane", 0)); c.Turn != "" {
		t.Errorf("claimed %+v", c)
	}
	if n := s.Stats().Commits - before; n != 0 {
		t.Errorf("a claim of nothing costs %d commits", n)
	}
}

// TestCommitIsSharedByManyWriters checks that pending operations are committed
// together.
func TestCommitIsSharedByManyWriters(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	var wg sync.WaitGroup
	const n = 200
	for i := range n {
		wg.Go(func() {
			if _, err := s.Accept(context.Background(), []store.Admission{{Entry: event("lane", fmt.Sprint(i), "x")}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	st := s.Stats()
	if st.Writes != n || st.Commits > n/4 {
		t.Errorf("%d writes in %d commits, want %d in at most %d", st.Writes, st.Commits, n, n/4)
	}
}

// TestOnCommitMeasuresTransactions checks also that a larger transaction
// reports more bytes.
func TestOnCommitMeasuresTransactions(t *testing.T) {
	t.Parallel()
	var commits, bytes int64
	s := must[*bolt.Store](t)(bolt.Open(t.Context(), storePath(t.TempDir()), bolt.Options{OnCommit: func(took time.Duration, n int64) {
		if took <= 0 || n <= 0 {
			t.Errorf("%v, %d bytes", took, n)
		}
		commits, bytes = commits+1, bytes+n
	}}))
	opened, reported := s.Stats().Commits, commits
	accept := func(key, text string) (grown int64) {
		before := bytes
		_, err := s.Accept(t.Context(), []store.Admission{{Entry: event("lane", key, text)}})
		ok(t, err)
		return bytes - before
	}
	small := accept("1", "x")
	if large := accept("2", strings.Repeat("x", 100_000)); large < small+100_000 {
		t.Errorf("a small one writes %d bytes, a large one %d", small, large)
	}
	n := s.Stats().Commits - opened
	if commits-reported != int64(n) || n != 2 {
		t.Errorf("%d of %d transactions are reported", commits-reported, n)
	}
	ok(t, s.Close())
}

// TestOpenReadsOnlyUnfinishedRecords opens a store with many sessions and uses
// allocations as a measure of what is read.
func TestOpenReadsOnlyUnfinishedRecords(t *testing.T) {
	dir := t.TempDir()
	createSessions(t, dir, 500)
	s := open(t, dir)
	if n := testing.AllocsPerRun(1, func() {
		ok(t, s.Close())
		s = must[*bolt.Store](t)(bolt.Open(t.Context(), storePath(dir), bolt.Options{}))
	}); n > 2000 {
		t.Errorf("opening 500 sessions costs %.0f allocations: it reads finished records", n)
	}
	ok(t, s.Close())
}
