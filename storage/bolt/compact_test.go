package bolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	return must[os.FileInfo](t)(os.Stat(path)).Size()
}

func TestCompactFreesSpaceAndKeepsRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	for i := range 64 {
		ok(t, s.SetValue(t.Context(), fmt.Sprint(i), make([]byte, 100_000)))
	}
	for i := range 64 {
		ok(t, s.SetValue(t.Context(), fmt.Sprint(i), nil))
	}
	must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("lane", "k", "x")}}))
	c := must[store.Claim](t)(s.Claim(t.Context(), "lane", 0))
	must[[]outbox.Row](t)(s.Enqueue(t.Context(), []outbox.Row{newRow(testDM, "1")}))
	r, _, _, err := s.Next(t.Context(), testDM)
	ok(t, err)
	before := fileSize(t, storePath(dir))

	var wg sync.WaitGroup
	for i := range 20 { // concurrent operations
		wg.Go(func() {
			if _, err := s.Accept(context.Background(), []store.Admission{{Entry: event("others", fmt.Sprint("o", i), "x")}}); err != nil {
				t.Error(err)
			}
			if _, err := storagetest.Transcript(context.Background(), s, "s1", 0); err != nil {
				t.Error(err)
			}
		})
	}
	ok(t, s.Compact(t.Context()))
	wg.Wait()
	if after := fileSize(t, storePath(dir)); after > before/3 {
		t.Errorf("%d bytes became %d", before, after)
	}
	if _, _, sending, err := s.Next(t.Context(), testDM); err != nil || sending {
		t.Errorf("the row is handed out again (%t, %v)", sending, err)
	}
	ok(t, s.Settle(t.Context(), outbox.Settlement{ID: r.ID, State: outbox.Sent}))
	must[[]outbox.Row](t)(s.CommitTurn(t.Context(), c, turnCommit("lane", "s1", 1)))
	ok(t, s.Verify(t.Context()))
	ok(t, s.Close())
	s = open(t, dir)
	if n := s.Waiting("others"); n != 20 {
		t.Errorf("%d wait, want 20", n)
	}
	if rows, err := storagetest.Transcript(t.Context(), s, "s1", 0); err != nil || len(rows) != 4 {
		t.Errorf("%d rows, %v; want 4", len(rows), err)
	}
	ok(t, s.Verify(t.Context()))
}

func TestBackupIsCompleteStore(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	runTurn(t, s, "lane", "s1", 0)
	tell(t, s, newEvent("s1", "e1"))
	to := filepath.Join(t.TempDir(), "backup.db")
	ok(t, s.Backup(t.Context(), to))
	tell(t, s, newEvent("s1", "later"))
	runTurn(t, s, "lane", "s1", 1)
	kept := must[*bolt.Store](t)(bolt.Open(t.Context(), to, bolt.Options{}))
	defer func() { ok(t, kept.Close()) }()
	if rows, err := storagetest.Transcript(t.Context(), kept, "s1", 0); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v; want 2", len(rows), err)
	}
	checkQueue(t, kept, "e1")
	ok(t, kept.Verify(t.Context()))
}
