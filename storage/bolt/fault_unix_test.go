//go:build unix

package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// fullDisk runs in a process whose files cannot grow for a while.
func fullDisk(dir string) error {
	ctx := context.Background()
	s, err := bolt.Open(ctx, storePath(dir), bolt.Options{})
	if err != nil {
		return err
	}
	n := 0
	accept := func() error {
		n++
		_, err := s.Accept(ctx, []store.Admission{{Entry: event("lane", fmt.Sprint("k", n), strings.Repeat("x", 50_000))}})
		return err
	}
	if err := accept(); err != nil {
		return err
	}
	info, err := os.Stat(storePath(dir))
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGXFSZ)
	limit := unix.Rlimit{Cur: uint64(info.Size()), Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	taken := 1
	for ; err == nil && n < 1000; err = accept() {
		taken = n
	}
	if !errors.Is(err, unix.EFBIG) && (err == nil || !strings.Contains(err.Error(), "too large")) {
		return fmt.Errorf("on a full disk: %v, want %v", err, unix.EFBIG)
	}
	if s.Stats().Error == "" {
		return errors.New("Stats do not report the failure")
	}
	if got := s.Waiting("lane"); got != taken {
		return fmt.Errorf("%d wait on a full disk, want %d", got, taken)
	}
	if histories, err := s.MessageHistory(ctx, "k1"); err != nil || len(histories) != 1 {
		return fmt.Errorf("reading from a full disk: %v, %v", histories, err)
	}
	limit.Cur = unix.RLIM_INFINITY
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	waitForRecovery(s)
	n--
	if err := accept(); err != nil {
		return fmt.Errorf("after space is available again: %w", err)
	}
	if got := s.Waiting("lane"); got != taken+1 {
		return fmt.Errorf("%d wait after space is available again, want %d", got, taken+1)
	}
	return errors.Join(s.Verify(ctx), s.Close())
}

// waitForRecovery waits until the store reports no error, which it finds out by
// its own write probe.
func waitForRecovery(s *bolt.Store) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.Stats().Error != "" {
		<-tick.C
	}
}

func TestFullDiskStopsOnlyWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runChild(t, "full disk", dir, nil)
	s := open(t, dir)
	if s.Waiting("lane") < 2 {
		t.Errorf("%d wait", s.Waiting("lane"))
	}
	ok(t, s.Verify(t.Context()))
}

// readOnly runs in a process that may read the file but not write it.
func readOnly(dir string) error {
	_, err := bolt.Open(context.Background(), storePath(dir), bolt.Options{})
	if !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("got %v, want %v", err, fs.ErrPermission)
	}
	return nil
}

func TestOpenRejectsReadOnlyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok(t, open(t, dir).Close())
	ok(t, os.Chmod(storePath(dir), 0o444))
	if os.Getuid() != 0 {
		ok(t, readOnly(dir))
		return
	}
	runChildAsOtherUser(t, dir, "read-only")
}

// readOnlyForAWhile runs in a process whose file cannot be written for a while,
// nor opened for writing.
func readOnlyForAWhile(dir string) error {
	ctx := context.Background()
	s, err := bolt.Open(ctx, storePath(dir), bolt.Options{})
	if err != nil {
		return err
	}
	accept := func(key string) error {
		_, err := s.Accept(ctx, []store.Admission{{Entry: event("lane", key, "hello")}})
		return err
	}
	signal.Ignore(unix.SIGXFSZ)
	limit := unix.Rlimit{Cur: 0, Max: unix.RLIM_INFINITY}
	err = errors.Join(accept("k1"), os.Chmod(storePath(dir), 0o400), unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	if err != nil {
		return err
	}
	for _, key := range []string{"k2", "k3"} {
		if accept(key) == nil {
			return errors.New("a write to the read-only file succeeded")
		}
		if histories, err := s.MessageHistory(ctx, "k1"); err != nil || len(histories) != 1 {
			return fmt.Errorf("reading the read-only file: %v, %w", histories, err)
		}
	}
	limit.Cur = unix.RLIM_INFINITY
	if err := errors.Join(os.Chmod(storePath(dir), 0o600), unix.Setrlimit(unix.RLIMIT_FSIZE, &limit), accept("k2")); err != nil {
		return err
	}
	waitForRecovery(s)
	if n := s.Waiting("lane"); n != 2 {
		return fmt.Errorf("%d wait, want 2", n)
	}
	return errors.Join(s.Verify(ctx), s.Close())
}

func TestReadOnlyFileStaysReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if os.Getuid() != 0 {
		runChild(t, "read-only for a while", dir, nil)
		return
	}
	runChildAsOtherUser(t, dir, "read-only for a while")
}

// runChildAsOtherUser runs a child as a user other than root, for whom nothing
// is read-only.
func runChildAsOtherUser(t *testing.T, dir, what string) {
	t.Helper()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		ok(t, os.Chmod(at, 0o755))
	}
	ok(t, os.Chmod(dir, 0o777))
	runChild(t, what, dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
}

// runChild runs a copy of this binary that any user may execute.
func runChild(t *testing.T, what, dir string, as *syscall.SysProcAttr) {
	t.Helper()
	cmd := childCommand(t.Context(), what, dir)
	if as != nil {
		cmd.Path = filepath.Join(dir, "child")
		raw := must[[]byte](t)(os.ReadFile(os.Args[0]))
		syscall.ForkLock.RLock() // a process that is started meanwhile would keep the file open for writing
		err := os.WriteFile(cmd.Path, raw, 0o755)
		syscall.ForkLock.RUnlock()
		ok(t, err)
		cmd.Dir, cmd.SysProcAttr = dir, as
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
