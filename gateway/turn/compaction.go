package turn

import (
	"context"
	"fmt"

	"hermesd/agent"
	"hermesd/gateway/store"
)

// compressSession runs the command /compress.
func (c *claim) compressSession(ctx context.Context, focus string) {
	t := c.use(ctx, false)
	if t == nil {
		return
	}
	defer t.close()
	t.session.Model, _ = c.runner.parts.Agent.Choose(t.session.Record.Settings)
	text, made, err := t.compaction.Compress(ctx, focus)
	if err == nil && made != nil {
		err = t.recordCompaction(*made)
	}
	switch {
	case err != nil:
		c.endEarly(ctx, err)
	case made != nil:
		t.commit(ctx, store.Turn{End: c.replied(text)})
	default:
		c.finish(ctx, store.Finish{End: c.replied(text)})
	}
}

// recordCompaction adds a compaction by the agent to the changes of the turn.
func (t *turn) recordCompaction(ev agent.Compacted) error {
	if err := t.compaction.Add(ev); err != nil {
		return err
	}
	t.auxiliaryUsage = t.auxiliaryUsage.Add(ev.Usage)
	t.trace.Notices = append(t.trace.Notices, fmt.Sprintf("%s: about %d tokens became %d, %d messages archived", ev.Reason, ev.Before, ev.After, ev.To-ev.From))
	return nil
}
