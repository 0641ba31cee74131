//go:build unix

package plugin_test

import (
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

func TestWhatTheProgramStartedEndsWithIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	h := newHost(t, time.Second, "hang with child", file)
	if _, err := newEngine(h, "s").Compress(t.Context(), longView()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for range 12_000 { // two minutes
		if hasEnded(pid) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("process %d goes on", pid)
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
	h := plugin.NewHost(plugin.Manifest{
		Name: "rogue", Timeout: 5 * time.Second, Dir: t.TempDir(),
		Command: []string{"sh", "-c", setsid + " sh -c 'echo $$ > " + file + "; exec sleep 600' & sleep 600"},
	}, nopLogger())
	defer h.Close()
	p, err := newEngine(h, "s").Compress(t.Context(), longView())
	if err != nil || !strings.Contains(p.Explanation, "it did not answer in time") {
		t.Errorf("got %q, %v", p.Explanation, err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
		if hasEnded(pid) {
			t.Error("it was waited for")
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // started by this test
	}
}

// hasEnded reports whether a process does not exist or is a zombie.
func hasEnded(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
