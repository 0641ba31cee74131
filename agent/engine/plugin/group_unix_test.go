//go:build unix

package plugin_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermesd/agent/engine/plugin"
)

// pidOfHanging runs a program that hangs, until it has had the time to write the process ID of
// its child to file, and returns that.
func pidOfHanging(t *testing.T, file string, command ...string) int {
	t.Helper()
	for limit := time.Second; ; limit *= 2 {
		h := plugin.NewHost(plugin.Manifest{Name: "rogue", Timeout: limit, Dir: t.TempDir(), Command: command}, nopLogger())
		p, err := newEngine(h, "s").Compress(t.Context(), longView())
		h.Close()
		if err != nil || !strings.Contains(p.Explanation, "it did not answer in time") {
			t.Fatalf("got %q, %v", p.Explanation, err)
		}
		raw, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			return pid
		}
	}
}

func TestWhatTheProgramStartedEndsWithIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	pid := pidOfHanging(t, file, os.Args[0], "be-an-engine", "hang with child", file)
	for !hasEnded(pid) {
		<-time.After(10 * time.Millisecond)
	}
}

// A process that has left the group keeps the pipes open; nothing waits for it,
// so it still runs in the end.
func TestNobodyWaitsForARunaway(t *testing.T) {
	t.Parallel()
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	pid := pidOfHanging(t, file, "sh", "-c", setsid+" sh -c 'echo $$ > "+file+"; exec sleep 600' & sleep 600")
	if hasEnded(pid) {
		t.Error("it was waited for")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // started by this test
}

// hasEnded reports whether a process does not exist or is a zombie.
func hasEnded(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
