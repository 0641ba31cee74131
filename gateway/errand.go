package gateway

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

const (
	// maxErrands bounds the errands that wait for one account; more are left out.
	maxErrands = 64
	// errandPatience bounds one of them.
	errandPatience = 10 * time.Second
)

// errands are small calls to platforms that nothing waits for. Those of one
// account are made in order; what a slow platform does not take in time is left
// out.
type errands struct {
	queues  map[chat.Account]chan errand
	log     *zap.Logger
	workers sync.WaitGroup
	end     context.CancelFunc // nil before run
}

// An errand makes one call. It says itself what went wrong.
type errand func(ctx context.Context)

// newErrands returns the errands of the accounts for whose adapters able says
// so. They wait until run.
func newErrands(adapters map[chat.Account]chat.Adapter, able func(chat.Adapter) bool, log *zap.Logger) *errands {
	e := &errands{queues: make(map[chat.Account]chan errand), log: log}
	for account, a := range adapters {
		if able(a) {
			e.queues[account] = make(chan errand, maxErrands)
		}
	}
	return e
}

// run starts a worker for each account. They end with ctx or close.
func (e *errands) run(ctx context.Context) {
	ctx, e.end = context.WithCancel(ctx)
	for _, queue := range e.queues {
		e.workers.Go(func() { // close waits for it
			for {
				select {
				case <-ctx.Done():
					return
				case do := <-queue:
					within(ctx, do)
				}
			}
		})
	}
}

func within(ctx context.Context, do errand) {
	ctx, cancel := context.WithTimeout(ctx, errandPatience)
	defer cancel()
	do(ctx)
}

// close leaves out what still waits, and waits for what is under way.
func (e *errands) close() {
	if e.end != nil {
		e.end()
	}
	e.workers.Wait()
}

// add asks for an errand. An account without errands has none to do.
func (e *errands) add(account chat.Account, do errand) {
	queue, ok := e.queues[account]
	if !ok {
		return
	}
	select {
	case queue <- do:
	default:
		e.log.Debug("too many calls wait", zap.String("platform", string(account.Platform)))
	}
}
