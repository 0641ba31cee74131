package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hermesd/cmd/internal/tui/text"
	"hermesd/storage"
	"hermesd/systemd"
)

const (
	// startsFile is the file in the home directory with the times of starts that
	// did not become ready.
	startsFile = "hermesd.starts"
	// startsSpan is how long such a start counts; startsFree is the number of
	// them that are not delayed.
	startsSpan = 10 * time.Minute
	startsFree = 5
	// maxStartDelay is the maximum delay of a start.
	maxStartDelay = 5 * time.Minute
)

// startDelay returns the delay of the n-th consecutive start that did not become
// ready.
func startDelay(n int) time.Duration {
	if n <= startsFree {
		return 0
	}
	return min(maxStartDelay, 5*time.Second<<min(n-startsFree-1, 10))
}

// A startRecord records starts in a file. A start counts until it becomes ready or
// ends without an error.
type startRecord struct{ path string }

// begin records a start of the daemon of home and delays it if too many consecutive
// starts failed: the cause is temporary or needs an operator, and frequent attempts
// help in neither case. It returns early when ctx ends.
func (c *cli) begin(ctx context.Context, home string) startRecord {
	b := startRecord{filepath.Join(home, startsFile)}
	now := time.Now()
	times := append(b.read(now), now)
	b.write(times)
	d := startDelay(len(times))
	if d == 0 {
		return b
	}
	failed := text.Count(len(times)-1, "start")
	c.printNote("%s not become ready in %s; this one waits %s (`hermesd doctor` and the log say what is wrong)", failed+text.Form(len(times)-1, " has", " have"), startsSpan, d)
	var manager systemd.Notifier
	_ = manager.Extend(d + startLimit) // otherwise the service manager ends the wait, which does no harm
	_ = manager.Status(fmt.Sprintf("waits %s after %s that failed", d, failed))
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return b
}

// startLimit is the time limit for a start, as in the unit file.
const startLimit = 2 * time.Minute

// read returns the starts that count. It ignores an invalid file, and starts in the
// future, which exist after the clock was set back.
func (b startRecord) read(now time.Time) (times []time.Time) {
	raw, err := os.ReadFile(b.path)
	if err != nil {
		return nil
	}
	var all []time.Time
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for _, t := range all {
		if d := now.Sub(t); d >= 0 && d < startsSpan {
			times = append(times, t)
		}
	}
	return times
}

// write stores times. Errors are ignored: the start itself reports what is wrong
// with the home directory.
func (b startRecord) write(times []time.Time) {
	raw, err := json.Marshal(times)
	if err == nil && os.WriteFile(b.path+".new", raw, 0o600) == nil {
		_ = os.Rename(b.path+".new", b.path)
	}
}

// ready removes the records of all failed starts.
func (b startRecord) ready() { _ = os.Remove(b.path) } // the file may not exist

// ended removes the record of this start if it ended without an error, or did not
// happen because another daemon runs in the home directory.
func (b startRecord) ended(err error) {
	var locked *storage.LockedError
	if err != nil && !errors.As(err, &locked) {
		return
	}
	if times := b.read(time.Now()); len(times) > 1 {
		b.write(times[:len(times)-1])
	} else {
		b.ready()
	}
}
