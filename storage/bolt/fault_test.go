package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

func TestOpenRejectsSecondOpener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	var locked *storage.LockedError
	if _, err := bolt.Open(t.Context(), storePath(dir), bolt.Options{}); !errors.As(err, &locked) {
		t.Fatalf("got %v, want a *storage.LockedError", err)
	}
	if text := locked.Error(); !strings.Contains(text, storePath(dir)+" is in use") || strings.Contains(text, storage.LockName) {
		t.Errorf("%q does not name the locked file, or another one", text)
	}
	ok(t, s.Close())
	open(t, dir)
}

func TestOpenRejectsNewerSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok(t, open(t, dir).Close())
	db := must[*bbolt.DB](t)(bbolt.Open(storePath(dir), 0o600, nil))
	ok(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("99")) }))
	ok(t, db.Close())
	before := must[[]byte](t)(os.ReadFile(storePath(dir)))
	var newer *storage.NewerError
	if _, err := bolt.Open(t.Context(), storePath(dir), bolt.Options{}); !errors.As(err, &newer) || newer.Have != 99 {
		t.Fatalf("got %v, want a *storage.NewerError of 99", err)
	}
	if after := must[[]byte](t)(os.ReadFile(storePath(dir))); string(after) != string(before) {
		t.Error("the file was changed")
	}
}

func TestOpenReplacesHalfCreatedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok(t, os.WriteFile(storePath(dir)+".new", []byte("half"), 0o600))
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	if info := must[os.FileInfo](t)(os.Stat(storePath(dir))); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %o, want 600", info.Mode().Perm())
	}
}

func TestClosedStoreReturnsErrClosed(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	ok(t, s.Close())
	ok(t, s.Close())
	if _, err := s.Claim(t.Context(), "lane", 0); !errors.Is(err, bolt.ErrClosed) {
		t.Errorf("claim: %v, want %v", err, bolt.ErrClosed)
	}
	if _, err := s.Sessions(t.Context(), session.Query{Max: 1}); !errors.Is(err, bolt.ErrClosed) {
		t.Errorf("sessions: %v, want %v", err, bolt.ErrClosed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bolt.Open(ctx, storePath(t.TempDir()), bolt.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v, want %v", err, context.Canceled)
	}
}

func TestOpenFailsWithoutDirectory(t *testing.T) {
	t.Parallel()
	_, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "none", "hermesd.db"), bolt.Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// TestFullFileRejectsWrites fills the file to its limit. Rejected entries are
// not stored, all others are, and reading works.
func TestFullFileRejectsWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openWith(t, dir, bolt.Options{MaxBytes: 4 << 20})
	accepted, rejected := fillStore(t, s)
	if len(rejected) < 5 || len(accepted) < 5 {
		t.Fatalf("%d accepted, %d rejected", len(accepted), len(rejected))
	}
	if s.Stats().Error == "" {
		t.Error("Stats do not report the failure")
	}
	checkAccepted(t, s, accepted, rejected)
	ok(t, s.Close())
	s = openWith(t, dir, bolt.Options{})
	checkAccepted(t, s, accepted, rejected)
	runTurn(t, s, "another", "s2", 0)
}

// fillStore accepts entries concurrently until most are rejected.
func fillStore(t *testing.T, s *bolt.Store) (accepted, rejected []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			failed := 0
			for i := 0; failed < 5 && i < 500; i++ {
				key := fmt.Sprintf("k%d-%d", g, i)
				_, err := s.Accept(context.Background(), []store.Admission{{Entry: event("lane", key, strings.Repeat("x", 20_000))}})
				mu.Lock()
				if err != nil {
					failed++
					rejected = append(rejected, key)
				} else {
					accepted = append(accepted, key)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return accepted, rejected
}

// checkAccepted checks that exactly the accepted keys are stored.
func checkAccepted(t *testing.T, s *bolt.Store, accepted, rejected []string) {
	t.Helper()
	if n := s.Waiting("lane"); n != len(accepted) {
		t.Errorf("%d wait, want %d", n, len(accepted))
	}
	for _, key := range accepted {
		if histories := must[[]store.MessageHistory](t)(s.MessageHistory(t.Context(), key)); len(histories) != 1 {
			t.Errorf("%s was accepted but is stored %d times", key, len(histories))
		}
	}
	for _, key := range rejected {
		if histories := must[[]store.MessageHistory](t)(s.MessageHistory(t.Context(), key)); len(histories) != 0 {
			t.Errorf("%s was rejected but is stored", key)
		}
	}
	ok(t, s.Verify(t.Context()))
}
