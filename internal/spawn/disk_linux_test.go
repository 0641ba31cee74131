package spawn_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hermesd/internal/diskspace"
	"hermesd/internal/spawn"
)

// mountSmall returns a directory with a file system of 64 MiB of its own.
func mountSmall(t *testing.T) string {
	t.Helper()
	dir := real(t, t.TempDir())
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=755"); err != nil {
		t.Skip("a file system for the test cannot be mounted:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestCommandsLeaveSpaceOnTheDisk(t *testing.T) {
	t.Parallel()
	dir := mountSmall(t)
	const keep = 32 << 20
	r := run(t, spawn.Command{Shell: "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero >f$i || exit 1; sleep 0.05; done", Dir: dir, KeepFree: keep, Timeout: patience})
	if !errors.Is(r.Cause, spawn.ErrDisk) {
		t.Errorf("got %v, %s", r.Cause, r.Head)
	}
	free, _, err := diskspace.Of(dir)
	if err != nil || free == 0 || free > keep {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	// With less free space than it should leave, a command still runs.
	if r := run(t, spawn.Command{Shell: "rm f1 && echo done", Dir: dir, KeepFree: keep}); text(t, r) != "done\n" {
		t.Errorf("got %+v", r)
	}
}

func TestFileInSandboxLeavesSpaceOnTheDisk(t *testing.T) {
	t.Parallel()
	dir := mountSmall(t)
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	box, err := spawn.Open(t.Context(), spawn.Auto, spawn.Policy{Write: []string{workspace}})
	if err != nil {
		t.Skip(err)
	}
	r := run(t, spawn.Command{Shell: "trap '' XFSZ; head -c 60000000 /dev/zero >f; ls -s f >/dev/null && echo still here", Dir: workspace, KeepFree: 32 << 20, Sandbox: box})
	if !strings.Contains(string(r.Head), "still here") {
		t.Errorf("got %v, %s", r.Cause, r.Head)
	}
	if info, err := os.Stat(filepath.Join(workspace, "f")); err != nil || info.Size() == 0 || info.Size() > 33<<20 {
		t.Errorf("got %v, %v", info, err)
	}
}
