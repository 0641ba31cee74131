package admin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
)

// A keeper is a store with maintenance functions.
type keeper struct {
	store.Upkeep
	err   error
	bytes int64
}

func (k *keeper) Backup(_ context.Context, path string) error {
	if k.err != nil {
		return k.err
	}
	return os.WriteFile(path, []byte("all of it"), 0o600)
}

func (k *keeper) Compact(context.Context) error {
	if k.err == nil {
		k.bytes /= 10
	}
	return k.err
}

func (k *keeper) Verify(context.Context) error { return k.err }

func (k *keeper) Stats() store.Stats { return store.Stats{Bytes: k.bytes, Waiting: 3} }

func TestTheStoreIsKeptWholeOverTheSocket(t *testing.T) {
	k := &keeper{bytes: 1000}
	home := t.TempDir()
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: &fakeStore{}, Upkeep: k, Home: home}))
	defer func() { _ = c.Close(t.Context()) }()
	got, err := c.Backup(t.Context(), "")
	if err != nil || got.Stats.Waiting != 3 || !strings.HasPrefix(got.Path, filepath.Join(home, admin.BackupDir)) {
		t.Fatalf("backup: %+v, %v", got, err)
	}
	if raw, err := os.ReadFile(got.Path); err != nil || string(raw) != "all of it" {
		t.Errorf("the copy is %q, %v", raw, err)
	}
	if done, err := c.Compact(t.Context()); err != nil || done != (admin.Compaction{Before: 1000, After: 100}) {
		t.Errorf("compact: %+v, %v", done, err)
	}
	if v, err := c.Verify(t.Context()); err != nil || len(v.Findings) != 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
	k.err = errors.Join(errors.New("entry m1 is damaged"), errors.New("row o2 is damaged"))
	if v, err := c.Verify(t.Context()); err != nil || len(v.Findings) != 2 || v.Findings[1] != "row o2 is damaged" {
		t.Errorf("verify: %+v, %v", v, err)
	}
	var said *admin.Error
	if _, err := c.Compact(t.Context()); !errors.As(err, &said) || !strings.Contains(said.Text, "damaged") {
		t.Errorf("compact: %v", err)
	}
	if _, err := c.Backup(t.Context(), ""); !errors.As(err, &said) {
		t.Errorf("backup: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(home, admin.BackupDir+"*")); err != nil || len(left) != 1 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A home directory that cannot be written is backed up by way of another directory.
func TestTheStoreIsCopiedElsewhereIfNeeded(t *testing.T) {
	spare := t.TempDir()
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: &fakeStore{}, Upkeep: &keeper{}, Home: filepath.Join(spare, "none")}))
	defer func() { _ = c.Close(t.Context()) }()
	if got, err := c.Backup(t.Context(), spare); err != nil || !strings.HasPrefix(got.Path, filepath.Join(spare, admin.BackupDir)) {
		t.Errorf("backup: %+v, %v", got, err)
	}
	for _, spare := range []string{"", filepath.Join(spare, "none")} {
		if got, err := c.Backup(t.Context(), spare); err == nil {
			t.Errorf("%q: backup: %+v", spare, got)
		}
	}
}

func TestTheConfigurationIsReadAgainOverTheSocket(t *testing.T) {
	var n int
	state := func() admin.Config {
		return admin.Config{Read: time.Unix(int64(n), 0).UTC(), PendingRestart: []string{"model.default"}}
	}
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: &fakeStore{}, Daemon: admin.Daemon{Running: true, Reload: func(context.Context) admin.Config { n++; return state() }}}))
	defer func() { _ = c.Close(t.Context()) }()
	got, err := c.Reload(t.Context())
	if err != nil || got.Read.Unix() != 1 || len(got.PendingRestart) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	without := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: &fakeStore{}}))
	defer func() { _ = without.Close(t.Context()) }()
	if _, err := without.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "no daemon") {
		t.Errorf("without a daemon: %v", err)
	}
}
