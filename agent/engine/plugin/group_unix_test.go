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
	h := host(t, time.Second, "hang with child", file)
	if _, err := engine(h, "s").Compress(t.Context(), view()); err != nil {
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
		if ended(pid) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("process %d goes on", pid)
}

// A process that has left the group keeps the pipes open, and nobody waiting.
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
	}, nop())
	defer h.Close()
	began := time.Now()
	p, err := engine(h, "s").Compress(t.Context(), view())
	if err != nil || !strings.Contains(p.Explanation, "it did not answer in time") || time.Since(began) > 20*time.Second {
		t.Errorf("got %q, %v after %v", p.Explanation, err, time.Since(began))
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // ours to end
	}
}

// ended reports whether a process is not there or waits to be buried.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
