package spawn_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermesd/internal/spawn"
)

// A command has a lower CPU priority than this process, so that it cannot delay it.
func TestACommandComesAfterUs(t *testing.T) {
	t.Parallel()
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := 20 - raw
	behind := func(t *testing.T, r spawn.Result) {
		got, err := strconv.Atoi(strings.TrimSpace(text(t, r)))
		if err != nil || got <= ours && ours < 19 {
			t.Errorf("its niceness is %d, and ours %d (%v)", got, ours, err)
		}
	}
	// The priority is lowered once the command has started.
	asks := fmt.Sprintf("for i in $(seq 600); do [ $(nice) -le %d -a %d -lt 19 ] || break; sleep 0.1; done; nice", ours, ours)
	behind(t, run(t, spawn.Command{Shell: asks}))
	t.Run("in a sandbox", func(t *testing.T) {
		g := enclose(t, nil)
		behind(t, g.run(t, "nice")) // from the start
	})
}

// A command does not inherit the coarse timers of a daemon that systemd has started.
func TestCommandHasTheInitialTimerSlack(t *testing.T) {
	t.Parallel()
	var r spawn.Result
	err := spawn.WithTimerSlack(time.Millisecond, func() error { // on this thread
		r = run(t, spawn.Command{Shell: "cat /proc/self/timerslack_ns"})
		return nil
	})
	if got := strings.TrimSpace(text(t, r)); err != nil || got != "50000" {
		t.Errorf("timers of the command may be late by %s ns, want 50000 (%v)", got, err)
	}
}
