package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/active"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A Runner runs the turns of claims. Run may be called concurrently for different
// lanes, but not for the same lane.
type Runner struct {
	parts      Parts
	runs       *active.Runs
	waits      sync.Map        // of chan struct{}, by lane whose turn waits for more parts of its input
	open       context.Context // canceled by Close
	cancel     context.CancelFunc
	closeOnce  sync.Once
	background sync.WaitGroup // see goBackground
}

// New returns a Runner.
func New(p Parts) *Runner {
	r := &Runner{parts: p, runs: active.NewRuns()}
	r.open, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends the retries of failed commits, which are left to the next start, and
// cancels background work. It must be called before the runs are canceled.
func (r *Runner) Close() {
	r.closeOnce.Do(func() { r.cancel(); r.parts.Sessions.Passes.Close() })
}

// Wait waits for the end of background work, after Close.
func (r *Runner) Wait() {
	r.parts.Sessions.Passes.Wait()
	r.background.Wait()
}

// storeRetryDelay is the time until a lane is tried again after a store failure.
const storeRetryDelay = time.Second

// Run claims entries of lane l and runs one turn for them. If more entries wait it
// wakes the lane again, so that other lanes run in between.
func (r *Runner) Run(ctx context.Context, l inbox.Lane) {
	if !r.parts.Work.Lanes.MayRun(l) {
		return
	}
	ctx, limit, end := r.runs.Begin(ctx, l)
	defer end()
	c, offered := r.parts.Agent.Active.TakeOfferedClaim(l)
	var err error
	if !offered {
		c, err = r.parts.Store.Claim(context.WithoutCancel(ctx), l, limit)
	}
	if err != nil {
		r.parts.Settings.Log.Error("cannot claim entries", zap.String("lane", string(l)), zap.Error(err))
		time.AfterFunc(storeRetryDelay, func() { r.parts.Work.Lanes.Wake(l) })
		return
	}
	if c.Turn == "" {
		return
	}
	r.runs.Add(l, c.Entries...)
	work := r.newClaim(c)
	work.runObserved(ctx)
	// Entries that were accepted between the offer and this run have not woken the lane.
	if c.Remaining > 0 || work.hasMoreWork || offered && r.parts.Store.Waiting(l) > 0 {
		r.parts.Work.Lanes.Wake(l)
	}
}

// Release releases the offered claims that no Run has taken, so that their entries wait
// again. It must be called after the last Run.
func (r *Runner) Release(ctx context.Context) {
	for _, c := range r.parts.Agent.Active.TakeOfferedClaims() {
		if err := r.parts.Store.Release(ctx, c); err != nil {
			r.parts.Settings.Log.Error("cannot release claim", zap.String("lane", string(c.Lane)), zap.Error(err))
		}
	}
}

// PartArrived notifies the turn of lane l that waits for more parts of its input, and
// reports whether there is one. It may be called from any goroutine.
func (r *Runner) PartArrived(l inbox.Lane) bool {
	arrived, ok := r.waits.Load(l)
	if ok {
		select {
		case arrived.(chan struct{}) <- struct{}{}:
		default:
		}
	}
	return ok
}

// stop cancels the run of lane l because of a command, unless it is the run of later
// entries, and reports whether there may have been one. An offered claim counts as a
// run.
func (r *Runner) stop(l inbox.Lane, command inbox.ID, name string) bool {
	c, offered := r.parts.Agent.Active.OfferedClaim(l)
	if offered = offered && c.Entries[0].ID < command; offered {
		r.runs.StopNext(l, command, "/"+name, len(c.Entries))
	}
	return r.runs.Stop(l, command, "/"+name) || offered // it may have been taken in between
}

// Supersede cancels the run of lane l because of a newer entry, unless the run has
// that entry or was started by a later one. It may be called from any goroutine.
func (r *Runner) Supersede(l inbox.Lane, newer inbox.ID) { r.runs.Supersede(l, newer) }

// A step is the stored form of one step of a turn. The first one contains the input of
// the turn, so that a resumed turn uses the same input.
type step struct {
	Input json.RawMessage `json:"in,omitempty"`
	Agent agent.Step      `json:"a"`
	// LastSeen is the newest entry that the model had received by then.
	LastSeen inbox.ID `json:"t,omitempty"`
	// Calls are the ledger records of model calls since the previous step.
	Calls []store.Doc[ledger.Record] `json:"c,omitempty"`
	// Session is the session of the turn; only in the first step.
	Session session.ID `json:"s,omitempty"`
	// Engine is the state of the context engine, if it has changed.
	Engine json.RawMessage `json:"e,omitempty"`
}

// gatherParts waits for the other parts of the claim's last entry: the rest of an
// album, or of a text that the user's client has split. If ctx has ended it returns the
// cause.
func (c *claim) gatherParts(ctx context.Context) error {
	if ctx.Err() != nil { // stopped while the entries were claimed
		return context.Cause(ctx)
	}
	if len(c.Steps) > 0 || c.last().Inbound.Part == nil || c.last().Inbound.Part.Wait == 0 {
		return nil
	}
	arrived := make(chan struct{}, 1)
	c.runner.waits.Store(c.Lane, arrived)
	defer c.runner.waits.Delete(c.Lane)
	for {
		wait := time.Until(partsCompleteAt(c.Entries))
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-arrived:
			timer.Stop()
		case <-timer.C:
		}
		more, err := c.runner.parts.Store.Join(ctx, c.Claim, false)
		if err != nil {
			return fmt.Errorf("join entries: %w", err)
		}
		c.addEntries(more)
	}
}

// followUpWait is how long the input waits for another part after a later part of a
// split text.
const followUpWait = 300 * time.Millisecond

// partsCompleteAt returns the time at which the parts are complete if no other
// arrives; zero if there are no parts.
func partsCompleteAt(entries []inbox.Entry) time.Time {
	last := entries[len(entries)-1]
	if last.Inbound.Part == nil {
		return time.Time{}
	}
	wait := last.Inbound.Part.Wait
	if wait == 0 && len(entries) > 1 {
		wait = followUpWait
	}
	return last.Accepted.Add(wait)
}

// composeInput returns one user message with the content of entries for the model of the
// session; see input.Composer.
func (c *claim) composeInput(ctx context.Context, entries []inbox.Entry, rec *session.Record) (llm.Message, []string) {
	model, _ := c.runner.parts.Agent.Choose(rec.Settings)
	return c.runner.parts.Chat.Input.Compose(ctx, entries, rec, model.Vision)
}
