package accounts

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

const (
	// maxBestEffortCalls limits the calls that wait for one account; more are dropped.
	maxBestEffortCalls = 64
	// bestEffortTimeout limits one call.
	bestEffortTimeout = 10 * time.Second
)

// A bestEffortQueue makes calls to platforms whose result nothing waits for. The calls
// of one account run in order; calls that a slow platform delays too long are dropped.
type bestEffortQueue struct {
	queues  map[chat.Account]chan bestEffortCall
	log     *zap.Logger
	workers sync.WaitGroup
	cancel  context.CancelFunc // nil before start
}

// A bestEffortCall makes one call and logs its own errors.
type bestEffortCall func(ctx context.Context)

// newBestEffortQueue returns a queue for no account. Calls wait until start.
func newBestEffortQueue(log *zap.Logger) *bestEffortQueue {
	return &bestEffortQueue{queues: make(map[chat.Account]chan bestEffortCall), log: log}
}

// serve makes the queue take calls for an account.
func (e *bestEffortQueue) serve(account chat.Account) {
	e.queues[account] = make(chan bestEffortCall, maxBestEffortCalls)
}

// start starts one worker per account. Workers end with ctx or close.
func (e *bestEffortQueue) start(ctx context.Context) {
	ctx, e.cancel = context.WithCancel(ctx)
	for _, queue := range e.queues {
		e.workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case do := <-queue:
					runWithTimeout(ctx, do)
				}
			}
		})
	}
}

func runWithTimeout(ctx context.Context, do bestEffortCall) {
	ctx, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	do(ctx)
}

// close drops waiting calls and waits for running ones.
func (e *bestEffortQueue) close() {
	if e.cancel != nil {
		e.cancel()
	}
	e.workers.Wait()
}

// add enqueues a call. It does nothing if the queue does not serve the account or is
// full.
func (e *bestEffortQueue) add(account chat.Account, do bestEffortCall) {
	queue, ok := e.queues[account]
	if !ok {
		return
	}
	select {
	case queue <- do:
	default:
		e.log.Debug("best-effort queue is full", zap.String("platform", string(account.Platform)))
	}
}
