package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hermesd/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, step := range []struct {
		write func(string, []byte, fs.FileMode) error
		text  string
		want  string
		err   error
	}{
		{atomicfile.Create, "one", "one", nil},
		{atomicfile.Create, "two", "one", fs.ErrExist},
		{atomicfile.Replace, "three", "three", nil},
	} {
		err := step.write(path, []byte(step.text), 0o640)
		got, _ := os.ReadFile(path)
		if !errors.Is(err, step.err) || string(got) != step.want {
			t.Errorf("%s: got %q, %v", step.text, got, err)
		}
	}
	if err := atomicfile.Replace(filepath.Join(dir, "none", "a"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}

// RemoveStale removes old regular files with a name of os.CreateTemp from the given
// directories, and nothing else.
func TestRemoveStale(t *testing.T) {
	home, elsewhere := filepath.Join(t.TempDir(), "[home]"), t.TempDir()
	start := time.Now()
	put := func(path string, written time.Time) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Chtimes(path, written, written)); err != nil {
			t.Fatal(err)
		}
	}
	stale := []string{".hermesd-0", ".hermesd-4294967295", "memories/.hermesd-7", "memories/slack/.hermesd-7"}
	kept := []string{
		".hermesd-", ".hermesd-01", ".hermesd-4294967296", ".hermesd-+1", ".hermesd-1x", ".hermesd-db", ".setup-1", "hermesd-1", "1",
		"workspace/.hermesd-7", "memories/slack/U1/.hermesd-7", ".hermesd-5/.hermesd-7",
	}
	for _, name := range append(stale, kept...) {
		put(filepath.Join(home, name), start.Add(-time.Second))
	}
	put(filepath.Join(home, ".hermesd-8"), start.Add(time.Second))
	put(filepath.Join(elsewhere, ".hermesd-7"), start.Add(-time.Second))
	if err := errors.Join(os.Symlink(elsewhere, filepath.Join(home, "memories", "linked")), os.Symlink(filepath.Join(home, ".hermesd-8"), filepath.Join(home, ".hermesd-9"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := atomicfile.RemoveStale(root, start, ".", "memories", "memories/*", "none"); err != nil {
		t.Error(err)
	}
	for _, name := range stale {
		if _, err := os.Lstat(filepath.Join(home, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is not removed: %v", name, err)
		}
	}
	for _, name := range append(kept, ".hermesd-8", ".hermesd-9", "memories/linked/.hermesd-7") {
		if _, err := os.Lstat(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
}
