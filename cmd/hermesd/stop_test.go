//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestAStopUnderLoadLosesNothing sends messages of many users on all platforms while
// the configuration changes, to valid and invalid ones, with SIGHUP; then it stops
// the daemon under this load, with turns that end in time and turns that do not.
func TestAStopUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const people, most, drain = 8, 120, 500 * time.Millisecond
	c := settle(t, filepath.Join(t.TempDir(), "home"), people, fmt.Sprintf("gateway:\n  drain_timeout: %s\n", drain))
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(c.pid())
	if err != nil {
		t.Fatal(err)
	}
	hup := func() { _ = process.Signal(syscall.SIGHUP) } // it may have ended
	var all []string
	for person := range people { // a bot cannot hear of a direct chat on Discord that began while it was away
		all = append(all, c.says(person, 1, "hello", ""))
	}
	c.answered(all)
	all = append(all, c.say("hold", "")...) // turns that do not end in time
	over := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		tick := time.NewTicker(12 * time.Millisecond)
		defer tick.Stop()
		for range most {
			all = append(all, c.says(1+rand.IntN(people-1), rand.IntN(3), "message", ""))
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	})
	right, err := os.ReadFile(filepath.Join(c.Home(), "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	configure := func(more string) {
		if err := os.WriteFile(filepath.Join(c.Home(), "config.yaml"), append(right, more...), 0o600); err != nil {
			t.Fatal(err)
		}
		hup()
	}
	configure("agnet: 1\n")
	until(t, "the configuration is refused", func() bool { return strings.Contains(c.out.String(), "keeping the previous one") })
	if s := c.status(); !strings.Contains(s, "the configuration as it is now is not taken") || !strings.Contains(s, "agnet") {
		t.Errorf("status does not say it:\n%s", s)
	}
	configure("agent:\n  ephemeral_system_prompt: Be brief.\n")
	until(t, "it is taken", func() bool {
		return strings.Contains(c.status(), "daemon") && !strings.Contains(c.status(), "is not taken")
	})
	hup()
	if err := c.Stop(patience); err != nil { // the turns go on until hold is closed
		t.Errorf("it ends with %v", err)
	}
	if !strings.Contains(c.out.String(), "running turns interrupted and kept") {
		t.Error("it does not say what it has left")
	}
	close(over)
	load.Wait()
	close(c.hold)
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	c.answered(all)
	c.once(all)
	c.sound()
}

// A command that does nothing with signals is ended by the first one.
func TestInterruptEndsACommandThatReads(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "hermesd", "approvals", "check", "--batch")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, `{"command":"ls"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports the signal, which is checked
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
