package atomicfiles_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hermesd/cmd/internal/setup/atomicfiles"
)

// newPair returns two files: one that exists, and one that does not.
func newPair(t *testing.T) (home string, a, b atomicfiles.File) {
	t.Helper()
	home = t.TempDir()
	a = atomicfiles.File{Path: filepath.Join(home, "a"), Exists: true, Old: []byte("old a"), New: []byte("new a"), Mode: 0o600}
	b = atomicfiles.File{Path: filepath.Join(home, "b"), New: []byte("new b"), Mode: 0o640}
	if err := os.WriteFile(a.Path, a.Old, 0o644); err != nil {
		t.Fatal(err)
	}
	return home, a, b
}

// contents returns the contents of the files, and fails if home contains anything
// else.
func contents(t *testing.T, home string) string {
	t.Helper()
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(home, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Name()+"="+string(text))
	}
	return strings.Join(all, " ")
}

func TestWriteBothFiles(t *testing.T) {
	home, a, b := newPair(t)
	if err := atomicfiles.Write(home, a, b); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, home); got != "a=new a b=new b" {
		t.Errorf("the home holds %s", got)
	}
	for path, want := range map[string]fs.FileMode{a.Path: 0o600, b.Path: 0o640} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	if done, kept, err := atomicfiles.Recover(home); done || kept != nil || err != nil {
		t.Errorf("there is something to repair: %v %v %v", done, kept, err)
	}
}

func TestRecoverAfterCrashAtEachRename(t *testing.T) {
	for n := 1; n <= 2; n++ {
		home, a, b := newPair(t)
		if err := atomicfiles.WriteUntil(home, n, a, b); !errors.Is(err, atomicfiles.ErrKilled) {
			t.Fatalf("%v", err)
		}
		if done, kept, err := atomicfiles.Recover(home); !done || kept != nil || err != nil {
			t.Errorf("repaired at %d: %v %v %v", n, done, kept, err)
		}
		if got := contents(t, home); got != "a=new a b=new b" {
			t.Errorf("died at %d: the home holds %s", n, got)
		}
	}
}

func TestRecoverKeepsChangedFiles(t *testing.T) {
	home, a, b := newPair(t)
	if err := atomicfiles.WriteUntil(home, 2, a, b); !errors.Is(err, atomicfiles.ErrKilled) {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(b.Path, []byte("by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	if done, kept, err := atomicfiles.Recover(home); !done || len(kept) != 1 || kept[0] != b.Path || err != nil {
		t.Errorf("repaired: %v %v %v", done, kept, err)
	}
	if got := contents(t, home); got != "a=new a b=by hand" {
		t.Errorf("the home holds %s", got)
	}
}

func TestWriteRejectsChangedFile(t *testing.T) {
	home, a, b := newPair(t)
	if err := os.WriteFile(b.Path, []byte("by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	var changed *atomicfiles.ChangedError
	if err := atomicfiles.Write(home, a, b); !errors.As(err, &changed) || changed.Paths[0] != b.Path {
		t.Errorf("%v", err)
	}
	if got := contents(t, home); got != "a=old a b=by hand" {
		t.Errorf("the home holds %s", got)
	}
}

func TestWriteFailureLeavesNothing(t *testing.T) {
	home, a, b := newPair(t)
	b.Path = filepath.Join(home, "no", "such", "directory")
	if err := atomicfiles.Write(home, a, b); err == nil {
		t.Error("no error")
	}
	if got := contents(t, home); got != "a=old a" {
		t.Errorf("the home holds %s", got)
	}
}

// What a Write that was killed early has left, with secrets, is removed by the next one, also
// where it is not in the home. A Write that may still run keeps its files.
func TestWriteRemovesWhatAnEarlierOneHasLeft(t *testing.T) {
	home, a, _ := newPair(t)
	other := t.TempDir()
	b := atomicfiles.File{Path: filepath.Join(other, "b"), New: []byte("new b"), Mode: 0o600}
	for _, dir := range []string{home, other} {
		for name, age := range map[string]time.Duration{".setup-1": time.Hour, ".setup-2": 0, ".setup-mine": time.Hour} {
			path, at := filepath.Join(dir, name), time.Now().Add(-age)
			if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, at, at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := atomicfiles.Write(home, a, b); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, home) + ", " + contents(t, other); got != ".setup-2=x .setup-mine=x a=new a, .setup-2=x .setup-mine=x b=new b" {
		t.Errorf("left: %s", got)
	}
}

func TestRecoverReportsUnreadableJournal(t *testing.T) {
	home, _, _ := newPair(t)
	if err := os.WriteFile(filepath.Join(home, "setup.plan"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := atomicfiles.Recover(home); err == nil || !strings.Contains(err.Error(), "setup.plan") {
		t.Errorf("%v", err)
	}
}
