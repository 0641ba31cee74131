package gateway

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

const (
	// maxBestEffortCalls bounds the errands that wait for one account; more are left out.
	maxBestEffortCalls = 64
	// bestEffortTimeout bounds one of them.
	bestEffortTimeout = 10 * time.Second
)

// bestEffortQueue are small calls to platforms that nothing waits for. Those of one
// account are made in order; what a slow platform does not take in time is left
// out.
type bestEffortQueue struct {
	queues  map[chat.Account]chan bestEffortCall
	log     *zap.Logger
	workers sync.WaitGroup
	end     context.CancelFunc // nil before run
}

// An bestEffortCall makes one call. It says itself what went wrong.
type bestEffortCall func(ctx context.Context)

// newBestEffortQueue returns the errands of the accounts for whose adapters able says
// so. They wait until run.
func newBestEffortQueue(adapters map[chat.Account]chat.Adapter, able func(chat.Adapter) bool, log *zap.Logger) *bestEffortQueue {
	e := &bestEffortQueue{queues: make(map[chat.Account]chan bestEffortCall), log: log}
	for account, a := range adapters {
		if able(a) {
			e.queues[account] = make(chan bestEffortCall, maxBestEffortCalls)
		}
	}
	return e
}

// run starts a worker for each account. They end with ctx or close.
func (e *bestEffortQueue) run(ctx context.Context) {
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

func within(ctx context.Context, do bestEffortCall) {
	ctx, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	do(ctx)
}

// close leaves out what still waits, and waits for what is under way.
func (e *bestEffortQueue) close() {
	if e.end != nil {
		e.end()
	}
	e.workers.Wait()
}

// add asks for an errand. An account without errands has none to do.
func (e *bestEffortQueue) add(account chat.Account, do bestEffortCall) {
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
