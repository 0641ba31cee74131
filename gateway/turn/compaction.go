package turn

import (
	"context"
	"fmt"

	"hermesd/agent"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/inbox"
)

// newCompaction returns what compacts s for the turn.
func (t *turn) newCompaction(s *conversation.Conversation) *compaction.Run {
	return t.runner.parts.Compactor.Run(compaction.Turn{ID: t.claim.Turn, Notify: t.reply.Notify, Log: t.log}, s)
}

// compressSession runs the command /compress.
func (t *turn) compressSession(ctx context.Context, focus string) {
	s, err := t.runner.parts.Sessions.Use(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil:
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.parts.Sessions.Release(s)
	s.Model, _ = t.runner.parts.Agent.Choose(s.Record.Settings)
	compactor := t.newCompaction(s)
	text, made, err := compactor.Compress(ctx, focus)
	if err == nil && made != nil { // else the commit has no conversation
		t.session, t.compaction = s, compactor
		err = t.recordCompaction(*made)
	}
	if err != nil {
		if ctx.Err() != nil {
			t.endInterrupted(ctx, context.Cause(ctx))
			return
		}
		t.fail(ctx, err)
		return
	}
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: t.reply.Answer(text)})
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
