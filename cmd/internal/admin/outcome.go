package admin

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

const (
	askEvery = 250 * time.Millisecond
	// lingering limits how long an outcome is delayed for messages of its turn that
	// are not shown yet.
	lingering = 3 * time.Second
	// maxMerged limits how many merges into newer messages are followed.
	maxMerged = 32
)

// watch reports to the terminal how its lines ended. It reads the store after each
// event, and periodically while lines are pending.
func (t *terminal) watch(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.kick:
		case <-tick.C:
		}
		if err := t.checkPending(ctx); err != nil {
			return err
		}
	}
}

// checkPending reports to the terminal how its pending lines ended.
func (t *terminal) checkPending(ctx context.Context) error {
	t.mu.Lock()
	ids := slices.Collect(maps.Keys(t.pending))
	t.mu.Unlock()
	for _, id := range ids {
		if err := t.check(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// check reports to the terminal how the line id ended, if it has.
func (t *terminal) check(ctx context.Context, id string) error {
	c, ok, err := t.chain(ctx, id)
	if err != nil {
		if ctx.Err() == nil {
			t.h.opts.Log.Error("cannot read outcome of line", zap.String("line", id), zap.Error(err))
		}
		return nil // retried later
	}
	if !ok || c.Entry.Outcome == nil {
		return nil
	}
	settled := !slices.ContainsFunc(c.Rows, func(r outbox.Row) bool { return !r.Terminal() })
	if !settled && time.Since(c.Entry.Ended) < lingering {
		return nil
	}
	t.mu.Lock()
	_, open := t.pending[id]
	delete(t.pending, id)
	t.mu.Unlock()
	if !open { // reported already: watch and serve may check at the same time
		return nil
	}
	return t.out.write(Down{Outcome: outcomeOf(id, c)})
}

// chain returns the history of the line id, or of the newer line into which it was
// merged.
func (t *terminal) chain(ctx context.Context, id string) (c store.MessageHistory, ok bool, err error) {
	ask := id
	for range maxMerged {
		chains, err := t.h.opts.Store.MessageHistory(ctx, ask)
		if err != nil {
			return c, false, err
		}
		i := slices.IndexFunc(chains, func(c store.MessageHistory) bool { return c.Entry.Inbound.Address.Platform == chat.Console })
		if i < 0 {
			return c, false, nil
		}
		c = chains[i]
		if c.Entry.Outcome == nil || c.Entry.Outcome.MergedInto == 0 {
			return c, true, nil
		}
		ask = c.Entry.Outcome.MergedInto.String()
	}
	return c, true, nil
}

func outcomeOf(id string, c store.MessageHistory) *Outcome {
	o := &Outcome{ID: id, Result: c.Entry.Outcome.Result, Reason: c.Entry.Outcome.Reason}
	for _, r := range c.Rows {
		if r.Role == outbox.Reply && r.Delete == 0 {
			o.Text = append(o.Text, r.Msg.Text)
		}
		if r.Receipt != nil && r.Role != outbox.Notice {
			o.Messages = append(o.Messages, r.Receipt.ID)
		}
	}
	if len(c.Trace) > 0 && json.Unmarshal(c.Trace, &o.Trace) != nil {
		o.Trace.Calls = nil // a trace of another version is omitted
	}
	return o
}
