// Package systemd implements the service manager's notification protocol and renders the
// unit files of the daemon. A Notifier reports that the daemon is ready, alive,
// reloading or stopping; without a service manager (NOTIFY_SOCKET is not set) its
// methods do nothing and return nil. Unit renders a unit file; installing it is not part
// of this package.
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

// A Notifier reports the state of the daemon to the service manager. The zero Notifier
// is ready for use, from any goroutine. It must not be copied after first use.
type Notifier struct {
	mu             sync.Mutex // guards the fields below and the order of status messages
	status         string     // last argument of Status, as one line
	watchdogFailed bool       // the watchdog's own status is shown in place of status
}

// Ready reports that the daemon has started or has finished reloading.
func (n *Notifier) Ready() error { return send(daemon.SdNotifyReady) }

// Stopping reports that the daemon is about to exit.
func (n *Notifier) Stopping() error { return send(daemon.SdNotifyStopping) }

// Reloading reports that the daemon reloads its configuration. Ready must follow, even
// if the new configuration is rejected.
func (n *Notifier) Reloading() error {
	return send(daemon.SdNotifyReloading + "\n" + strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
}

// Extend requests d more time, counted from now, for the current start or stop: while a
// store is migrated or running turns are finished, for example.
func (n *Notifier) Extend(d time.Duration) error {
	return send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10))
}

// Status sets the one-line status shown by the service manager. Line ends and control
// characters are replaced by spaces.
func (n *Notifier) Status(line string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = oneLine(line)
	if n.watchdogFailed {
		return nil // shown when proof succeeds again
	}
	return send("STATUS=" + n.status)
}

// Watchdog pings the service manager twice per watchdog interval while proof returns nil.
// It returns when ctx ends, and immediately if no watchdog is configured. While proof
// fails or blocks no ping is sent, the status shows the error, and the service manager
// restarts the daemon when the interval is over. A ping that cannot be sent does not end
// Watchdog; the last such error is returned. The caller must wait for Watchdog to return,
// and ctx should last until the daemon has stopped.
//
// proof must check that work is being done (a store write, a step of a session).
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

// ping sends a ping if err, the result of proof, is nil, else a status with err.
func (n *Notifier) ping(err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.watchdogFailed = true
		return send("STATUS=" + oneLine("no sign of life: "+err.Error()))
	}
	state := daemon.SdNotifyWatchdog
	if n.watchdogFailed {
		n.watchdogFailed = false
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

// oneLine replaces line ends and control characters, because each line of a notification
// is an assignment of its own.
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
