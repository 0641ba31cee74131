package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// errNoMount is printed if this system does not allow a small disk.
const errNoMount = "no small disk here"

// smallDisk runs in a process with its own file system, which is filled from
// outside: unlike a size limit, that also fails writes to pages inside the
// file.
func smallDisk(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		return fmt.Errorf("%s: %w", errNoMount, err)
	}
	ctx := context.Background()
	var told atomic.Int64
	s, err := bolt.Open(ctx, storePath(dir), bolt.Options{OnNoSpace: func() { told.Add(1) }})
	if err != nil {
		return err
	}
	n := 0
	accept := func() error {
		n++
		_, err := s.Accept(ctx, []store.Admission{{Entry: event("lane", fmt.Sprint("k", n), strings.Repeat("x", 10_000))}})
		return err
	}
	for range 5 {
		if err := accept(); err != nil {
			return err
		}
	}
	for round := range 3 {
		taken := n
		ballast := dir + "/ballast"
		if err := fillDisk(ballast); err != nil {
			return err
		}
		for err = nil; err == nil && n < 1000; err = accept() {
			taken = n
		}
		if !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("round %d: %v, want %v", round, err, unix.ENOSPC)
		}
		if told.Swap(0) == 0 {
			return fmt.Errorf("round %d: OnNoSpace was not called", round)
		}
		if err := os.Remove(ballast); err != nil {
			return err
		}
		n = taken
		if err := accept(); err != nil {
			return fmt.Errorf("round %d: when there is space again: %w", round, err)
		}
		if got := s.Waiting("lane"); got != n {
			return fmt.Errorf("round %d: %d wait, want %d", round, got, n)
		}
		if err := s.Verify(ctx); err != nil {
			return err
		}
	}
	return s.Close()
}

// fillDisk writes to path until the disk is full.
func fillDisk(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
	}
	return f.Close()
}

func TestFullTmpfsRecovers(t *testing.T) {
	t.Parallel()
	cmd := childCommand(t.Context(), "small disk", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL), strings.Contains(string(out), errNoMount):
		t.Skipf("no small disk on this system: %v %s", err, out)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	}
}
