package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/store"
	"hermesd/storage"
)

const (
	// watchdogTimeout limits the write that proves that the store can be written.
	watchdogTimeout = 10 * time.Second
	// maxStall is the time for which lanes may be ready while none runs.
	maxStall = 5 * time.Minute
)

// A watchdog measures for how long lanes have been ready while none ran.
type watchdog struct {
	mu           sync.Mutex // guards stalledSince
	stalledSince time.Time  // zero if lanes run or none is ready
}

// checkAlive returns an error if the daemon makes no progress: the store must accept
// a write, and if lanes are ready, some must run. A full or read-only disk is no
// error, because a restart would not change it; users are notified until there is
// space again.
func (a *App) checkAlive() error {
	ctx, cancel := context.WithTimeout(context.Background(), watchdogTimeout)
	defer cancel()
	err := store.Save(ctx, a.store, "alive", time.Now().UTC())
	switch {
	case storage.NoSpace(err):
		a.opts.Log.Warn("cannot write store", zap.Error(err))
		return nil
	case err != nil:
		return err
	}
	s := a.pipeline.Control().Status()
	return a.watchdog.check(s.TurnsQueued, s.TurnsRunning, time.Now())
}

// check records the numbers of ready and running lanes at a time. It returns an
// error once lanes have been ready for longer than maxStall and none has run.
func (p *watchdog) check(ready, running int, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ready == 0 || running > 0 {
		p.stalledSince = time.Time{}
		return nil
	}
	if p.stalledSince.IsZero() {
		p.stalledSince = now
	}
	if d := now.Sub(p.stalledSince); d > maxStall {
		return fmt.Errorf("turns have been queued for %s and none is running: %d", d.Round(time.Second), ready)
	}
	return nil
}
