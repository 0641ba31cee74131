package app

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/storage"
)

const (
	// watchdogTimeout bounds the write that proves that the store takes writes.
	watchdogTimeout = 10 * time.Second
	// idleTooLong is how long lanes may be ready while none runs.
	idleTooLong = 5 * time.Minute
)

// A watchdog remembers for how long lanes were ready while none ran.
type watchdog struct {
	mu    sync.Mutex // guards what follows
	since time.Time  // zero: lanes run, or none is ready
}

// alive proves to the watchdog that work is done: the store answers a write, and
// where lanes are ready, lanes run. A disk that is full or cannot be written is no
// reason to be restarted: it would be the same then, and until it has space again
// people are told.
func (a *App) alive() error {
	now, err := json.Marshal(time.Now().UTC())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), watchdogTimeout)
	defer cancel()
	err = a.store.SetValue(ctx, "alive", now)
	switch {
	case storage.NoSpace(err):
		a.opts.Log.Warn("the store cannot be written", zap.Error(err))
		return nil
	case err != nil:
		return err
	}
	s := a.gateway.Status()
	return a.watchdog.check(s.TurnsQueued, s.TurnsRunning, time.Now())
}

// check takes the pulse at a time at which so many lanes are ready and so many
// run. It fails once lanes were ready for too long and none has run.
func (p *watchdog) check(ready, running int, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ready == 0 || running > 0 {
		p.since = time.Time{}
		return nil
	}
	if p.since.IsZero() {
		p.since = now
	}
	if d := now.Sub(p.since); d > idleTooLong {
		return fmt.Errorf("%d conversations have been ready for %s and no turn runs", ready, d.Round(time.Second))
	}
	return nil
}
