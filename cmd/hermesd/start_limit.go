package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hermesd/storage"
	"hermesd/systemd"
)

const (
	// startsFile is the file in the home with the times of starts that have not
	// become ready.
	startsFile = "hermesd.starts"
	// startsSpan is for how long such a start counts, startsFree how many of them
	// are not slowed down.
	startsSpan = 10 * time.Minute
	startsFree = 5
	// maxStartDelay is the longest wait before a start.
	maxStartDelay = 5 * time.Minute
)

// startDelay is how long the n-th start in a row that has not become ready waits.
func startDelay(n int) time.Duration {
	if n <= startsFree {
		return 0
	}
	return min(maxStartDelay, 5*time.Second<<min(n-startsFree-1, 10))
}

// A startRecord start counts until it has become ready, or has ended in good order.
type startRecord struct{ path string }

// begin counts a start of the daemon of home, and waits if too many in a row have
// failed: what is wrong passes, or waits for a person, and neither needs a
// thousand tries. It returns when ctx ends.
func (c *cli) begin(ctx context.Context, home string) startRecord {
	b := startRecord{filepath.Join(home, startsFile)}
	now := time.Now()
	times := append(b.read(now), now)
	b.write(times)
	d := startDelay(len(times))
	if d == 0 {
		return b
	}
	c.printNote("%d starts in %s have not become ready; this one waits %s (`hermesd doctor` and the log say what is wrong)", len(times)-1, startsSpan, d)
	var manager systemd.Notifier
	_ = manager.Extend(d + startLimit) // else it ends the wait, which does no harm
	_ = manager.Status(fmt.Sprintf("waits %s after %d starts that failed", d, len(times)-1))
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return b
}

// startLimit is how long a start may take, as the unit file has it.
const startLimit = 2 * time.Minute

// read returns the starts that count. A file that makes no sense is none, and so
// is a start in the future: the clock was set back.
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

// write keeps times. Where it cannot, the start goes on: it will say itself what
// is wrong with the home.
func (b startRecord) write(times []time.Time) {
	raw, err := json.Marshal(times)
	if err == nil && os.WriteFile(b.path+".new", raw, 0o600) == nil {
		_ = os.Rename(b.path+".new", b.path)
	}
}

// ready forgets all starts that have failed.
func (b startRecord) ready() { _ = os.Remove(b.path) } // there may be none

// ended takes this start back if it has ended as it should, or was none: another
// daemon is at work in the home.
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
