package files_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A write that fails halfway keeps the old file and leaves no other file behind.
func TestWriteFailureKeepsOldFile(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"f": "old\n"})
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: was.Max}); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	for _, path := range []string{"f", "new"} {
		got := use(t, set, "write_file", map[string]any{"path": path, "content": strings.Repeat("x", 5000)})
		if !strings.HasPrefix(got, "error: "+path+" is not changed: ") {
			t.Errorf("got %q", got)
		}
	}
	onlyThese(t, dir, "f")
	if h := held(t, dir, "f"); h != "old\n" {
		t.Errorf("the file holds %q", h)
	}
}

func TestWriteReportsReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir, _, set := editable(t, allow, map[string]string{"f": "old\n"})
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) }) // so that it can be removed
	if got := use(t, set, "write_file", map[string]any{"path": "f", "content": "x"}); got != "error: f is not changed: nothing may be written there" {
		t.Errorf("got %q", got)
	}
}
