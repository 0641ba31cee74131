package index_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hermesd/storage/index"
)

const ownDisk = "HERMESD_TEST_OWN_DISK"

// fullDisk returns a small file system that no other process sees, and a function
// that makes all but a number of its bytes used. It runs the test again in a process
// that may mount one; in the original process ok is false.
func fullDisk(t *testing.T) (dir string, setFree func(free int), ok bool) {
	t.Helper()
	if os.Getenv(ownDisk) == t.Name() {
		const size = 2 << 20
		dir = t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
			t.Skipf("no file system can be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it goes with the process anyway
		return dir, func(free int) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, size-free), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownDisk+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSPC):
		t.Skipf("a process cannot have a file system of its own here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
	return "", nil, false
}

// Whatever is free, an index is opened, and if that does not suffice for a file,
// there is none.
func TestOpenOnAFullDisk(t *testing.T) {
	dir, setFree, ok := fullDisk(t)
	if !ok {
		return
	}
	w := newFakeStore()
	w.add(dm("a", "1"), "apple")
	removed := 0
	for free := 0; free <= 200<<10; free += 4 << 10 {
		setFree(free)
		x, err := index.Open(filepath.Join(dir, "search.db"))
		if err != nil {
			t.Fatalf("%d bytes are free: %v", free, err)
		}
		f := newFollower(x, w)
		f.SetSpace(func() (uint64, uint64, error) { return 1 << 30, 1 << 40, nil }) // as with a quota
		if x.Fault() != nil {
			removed++
			noSpace(t, x, "on a full disk")
			if _, err := f.CatchUp(t.Context()); !errors.Is(err, index.ErrNoSpace) {
				t.Errorf("%d bytes are free: it is updated: %v", free, err)
			}
			if names, err := filepath.Glob(filepath.Join(dir, "search.db*")); err != nil || len(names) > 0 {
				t.Errorf("%d bytes are free: it has files: %q, %v", free, names, err)
			}
		}
		if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
			t.Fatal(err)
		}
		catchUp(t, f)
		if got := rowsOf(t, x, "apple"); len(got) != 1 {
			t.Errorf("%d bytes were free: %v are found", free, got)
		}
		if err := errors.Join(x.Remove(), x.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if removed == 0 {
		t.Error("the disk was never full")
	}
}
