package bolt_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// A store that is opened for reading shows what an earlier process left and changes nothing.
func TestReadOnlyStoreIsNotChanged(t *testing.T) {
	why := errors.New("the disk is full")
	dir := t.TempDir()
	if _, err := bolt.Open(t.Context(), storePath(dir), bolt.Options{ReadOnly: why}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store that does not exist: %v", err)
	}
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("lane", "claimed", "hello")}}))
	must[store.Claim](t)(s.Claim(t.Context(), "lane", 0))
	must[[]outbox.Row](t)(s.Enqueue(t.Context(), []outbox.Row{newRow(testDM, "unsent")}))
	ok(t, s.Close())
	before := must[[]byte](t)(os.ReadFile(storePath(dir)))

	s, err := bolt.Open(t.Context(), storePath(dir), bolt.Options{ReadOnly: why})
	ok(t, err)
	rows, _, err := s.Outbox(t.Context(), outbox.Query{})
	if stats := s.Stats(); err != nil || len(rows) != 1 || rows[0].State != outbox.Attempting || stats.Claimed != 1 || stats.Outbox != 1 {
		t.Errorf("rows %+v, %v, stats %+v", rows, err, stats)
	}
	_, accepting := s.Accept(t.Context(), []store.Admission{{Entry: event("lane", "new", "hello")}})
	_, claiming := s.Claim(t.Context(), "other", 0)
	for what, err := range map[string]error{"accept": accepting, "claim": claiming, "drop": s.DropRow(t.Context(), rows[0].ID, "x"), "compact": s.Compact(t.Context())} {
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	copied := filepath.Join(t.TempDir(), "hermesd.db")
	ok(t, s.Backup(t.Context(), copied))
	ok(t, s.Close())
	if !bytes.Equal(before, must[[]byte](t)(os.ReadFile(storePath(dir)))) {
		t.Error("the file has changed")
	}
	s = open(t, filepath.Dir(copied))
	if rows, _, err := s.Outbox(t.Context(), outbox.Query{}); err != nil || len(rows) != 1 || rows[0].State != outbox.Uncertain {
		t.Errorf("the copy has %+v, %v", rows, err)
	}
}
