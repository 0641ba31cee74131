// Package systemd says to the service manager that the daemon is ready, alive,
// reloading or stopping, and holds the unit files under which it runs.
//
// Without a service manager (NOTIFY_SOCKET is not set) all of it does nothing
// and succeeds.
package systemd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A Notifier tells the service manager how the daemon is. The zero Notifier is
// ready for use, from any goroutine. It must not be copied.
type Notifier struct {
	mu     sync.Mutex // guards what follows, and the order of status messages
	status string     // as it was last told
	unwell bool       // the watchdog has put its own words in place of status
}

// Ready says that the daemon has started, or has finished reloading.
func (n *Notifier) Ready() error { return send(daemon.SdNotifyReady) }

// Stopping says that the daemon is about to end.
func (n *Notifier) Stopping() error { return send(daemon.SdNotifyStopping) }

// Reloading says that the daemon reads its configuration anew. Ready must
// follow, also if the new configuration is not taken.
func (n *Notifier) Reloading() error {
	return send(daemon.SdNotifyReloading + "\n" + strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
}

// Extend asks for d more time, from now, for the start or the stop that is
// going on: a store that is being migrated or turns that are being finished.
func (n *Notifier) Extend(d time.Duration) error {
	return send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10))
}

// Status shows one line about the daemon in the service manager's status. Line
// ends and control characters in it become spaces.
func (n *Notifier) Status(line string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = oneLine(line)
	if n.unwell {
		return nil // it is shown when the watchdog is content again
	}
	return send("STATUS=" + n.status)
}

// Watchdog tells the service manager, at half the time that it allows, that the
// daemon is alive, as long as proof returns nil; it returns when ctx ends, and
// at once if no watchdog is set. While proof fails, or does not return, the
// manager hears nothing, and restarts the daemon when its time is over; the
// status says why. A sign that cannot be sent is followed by the next one; the
// last such error is returned. Somebody must wait for Watchdog to return, and
// its ctx should last until the daemon has stopped.
//
// proof must look at work that was done (a write of the store, a step of a
// session), not just return.
func (n *Notifier) Watchdog(ctx context.Context, proof func() error) error {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("read watchdog settings: %w", err)
	}
	if limit <= 0 {
		return nil
	}
	tick := time.NewTicker(limit / 2)
	defer tick.Stop()
	var last error
	for {
		if err := n.ping(proof()); err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}

// ping sends a sign of life if what proof returned is nil, and else says why
// there is none.
func (n *Notifier) ping(unwell error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if unwell != nil {
		n.unwell = true
		return send("STATUS=" + oneLine("no sign of life: "+unwell.Error()))
	}
	state := daemon.SdNotifyWatchdog
	if n.unwell {
		n.unwell = false
		state += "\nSTATUS=" + n.status
	}
	return send(state)
}

func send(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("notify service manager: %w", err)
	}
	return nil
}

// oneLine keeps s from adding lines, which would be messages of their own.
func oneLine(s string) string {
	const longest = 300
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest-1]) + "…"
	}
	return strings.TrimSpace(s)
}
