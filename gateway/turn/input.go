package turn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

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
	arrived := c.runner.waits.begin(c.Lane)
	defer c.runner.waits.end(c.Lane)
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

// inputWaits holds the lanes whose turn waits for more parts.
type inputWaits struct {
	mu    sync.Mutex // guards what follows
	lanes map[inbox.Lane]chan struct{}
}

func newInputWaits() *inputWaits { return &inputWaits{lanes: make(map[inbox.Lane]chan struct{})} }

func (h *inputWaits) begin(l inbox.Lane) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := make(chan struct{}, 1)
	h.lanes[l] = ch
	return ch
}

func (h *inputWaits) end(l inbox.Lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lanes, l)
}

func (h *inputWaits) notify(l inbox.Lane) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch, ok := h.lanes[l]
	if ok {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	return ok
}

// composeInput returns one user message with the content of entries for the model of the
// session; see input.Composer.
func (c *claim) composeInput(ctx context.Context, entries []inbox.Entry, rec *session.Record) (llm.Message, []string) {
	model, _ := c.runner.parts.Agent.Choose(rec.Settings)
	return c.runner.parts.Chat.Input.Compose(ctx, entries, rec, model.Vision)
}
