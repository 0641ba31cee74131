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
	for range 200 {
		if hasEnded(pid) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("process %d goes on", pid)
}

// A process that has left the group keeps the pipes open; nothing may wait for
// it.
func TestNobodyWaitsForARunaway(t *testing.T) {
	t.Parallel()
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	h := plugin.NewHost(plugin.Manifest{
		Name: "rogue", Timeout: 500 * time.Millisecond, Dir: t.TempDir(),
		Command: []string{"sh", "-c", setsid + " sh -c 'echo $$ > " + file + "; exec sleep 60' & sleep 60"},
	}, nopLogger())
	defer h.Close()
	began := time.Now()
	p, err := newEngine(h, "s").Compress(t.Context(), longView())
	if err != nil || !strings.Contains(p.Explanation, "it did not answer in time") || time.Since(began) > 20*time.Second {
		t.Errorf("got %q, %v after %v", p.Explanation, err, time.Since(began))
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
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
