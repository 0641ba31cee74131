//go:build unix

package storage_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/storage"
)

// childHome, if set, is a directory that this process tries to open.
const childHome = "STORAGE_TEST_HOME"

func TestMain(m *testing.M) {
	if home := os.Getenv(childHome); home != "" {
		h, err := storage.Open(home)
		if err != nil {
			_, _ = os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		_ = h.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t *testing.T, path string) *storage.Home {
	t.Helper()
	h, err := storage.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestOpenCreatesPrivateDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	h := open(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode %o, want 700", info.Mode().Perm())
	}
	if got := h.Path("x", "y"); got != filepath.Join(path, "x", "y") {
		t.Errorf("path %s", got)
	}
	left, err := filepath.Glob(filepath.Join(path, ".probe*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestOpenNamesHolderOfLock(t *testing.T) {
	path := t.TempDir()
	h := open(t, path)
	_, err := storage.Open(path)
	var locked *storage.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v, want a *storage.LockedError", err)
	}
	if locked.PID != os.Getpid() || time.Since(locked.Since) > time.Minute || locked.Path != path {
		t.Errorf("got %+v", locked)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childHome+"="+path)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "is in use: process") {
		t.Errorf("another process: %v, %s", err, out)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestOpenOfFreeHomeDoesNotWait(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		h, err := storage.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("it waited for %v", took)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A child process that has not executed its program yet may hold a lock that
// its parent has released.
func TestOpenWaitsForLockReleasedSoon(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, err := storage.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() {
			if err := first.Close(); err != nil {
				t.Error(err)
			}
		})
		second, err := storage.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestOpenIgnoresLockFileOfDeadProcess(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, storage.LockName), []byte("1\n2020-01-01T00:00:00Z\nand more"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	raw, err := os.ReadFile(filepath.Join(path, storage.LockName))
	if err != nil || strings.Contains(string(raw), "2020") || strings.Count(string(raw), "\n") != 2 {
		t.Errorf("the lock file says %q, %v", raw, err)
	}
}

func TestEmptyLockFileStillLocks(t *testing.T) {
	path := t.TempDir()
	open(t, path)
	for _, text := range []string{"", "x\ny\n", "12", "12\nyesterday\n"} {
		if err := os.WriteFile(filepath.Join(path, storage.LockName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := storage.Open(path)
		var locked *storage.LockedError
		if !errors.As(err, &locked) || locked.PID != 0 || !strings.Contains(err.Error(), "another process") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOpenReadOnlyLocksAndChangesNothing(t *testing.T) {
	path := t.TempDir()
	if _, err := storage.OpenReadOnly(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a lock file: %v", err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(path, storage.LockName)
	before, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	h, err := storage.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	var locked *storage.LockedError
	if _, err := storage.Open(path); !errors.As(err, &locked) {
		t.Errorf("got %v, want a *storage.LockedError", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(lock)
	if names, e := os.ReadDir(path); err != nil || e != nil || len(names) != 1 || string(after) != string(before) {
		t.Errorf("%v, %q, %v, %v", names, after, err, e)
	}
	open(t, path)
	if _, err := storage.OpenReadOnly(path); !errors.As(err, &locked) {
		t.Errorf("got %v, want a *storage.LockedError", err)
	}
}

func TestOpenRejectsUnsuitableFileSystem(t *testing.T) {
	no := errors.New("function not implemented")
	for _, tc := range []struct {
		name string
		disk storage.Disk
		want string
	}{
		{"no locks", storage.Disk{Lock: func(*os.File) (bool, error) { return false, no }}, "cannot lock"},
		{"locks without effect", storage.Disk{Lock: func(*os.File) (bool, error) { return false, nil }}, "cannot lock"},
		{"no fsync", storage.Disk{Sync: func(*os.File) error { return no }}, "cannot fsync"},
		{"no fsync of directories", storage.Disk{Sync: func(f *os.File) error {
			if info, err := f.Stat(); err == nil && info.IsDir() {
				return no
			}
			return nil
		}}, "cannot fsync a directory"},
		{"no mappings", storage.Disk{ReadMapped: func(*os.File, int) ([]byte, error) { return nil, no }}, "cannot map"},
		{"stale mappings", storage.Disk{ReadMapped: func(_ *os.File, n int) ([]byte, error) { return make([]byte, n), nil }}, "cannot map"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := t.TempDir()
			_, err := storage.OpenOn(path, tc.disk)
			var home *storage.HomeError
			if !errors.As(err, &home) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want a *storage.HomeError that says %q", err, tc.want)
			}
			open(t, path) // the failed Open has released the lock
		})
	}
}

func TestOpenRejectsUnwritableHome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var home *storage.HomeError
	if _, err := storage.Open(filepath.Join(file, "home")); !errors.As(err, &home) {
		t.Errorf("below a file: %v, want a *storage.HomeError", err)
	}
	path := t.TempDir()
	if err := os.Chmod(path, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		_, err := storage.Open(path)
		if !errors.As(err, &home) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "not writable") {
			t.Errorf("got %v", err)
		}
		return
	}
	// Root can write everywhere, so another user tries.
	exe := filepath.Join(t.TempDir(), "child")
	raw, err := os.ReadFile(os.Args[0])
	if err == nil {
		syscall.ForkLock.RLock() // a process that is started meanwhile would keep the file open for writing
		err = os.WriteFile(exe, raw, 0o755)
		syscall.ForkLock.RUnlock()
	}
	for _, at := range []string{filepath.Dir(filepath.Dir(exe)), filepath.Dir(exe)} {
		err = errors.Join(err, os.Chmod(at, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childHome+"="+path)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not writable for this user") {
		t.Errorf("another user: %v, %s", err, out)
	}
}
