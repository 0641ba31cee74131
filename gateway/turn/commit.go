package turn

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/active"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/memory"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

// A turn is a claim with its conversation: what it commits is a store.Turn.
type turn struct {
	*claim
	session        *conversation.Conversation
	compaction     *compaction.Run
	tokenUsage     llm.Usage // of the turn's model calls, including those of earlier runs once it ends
	auxiliaryUsage llm.Usage // of compactions and of model calls by tools
	lastSeen       inbox.ID  // newest entry that the model has received
	recall         *memory.Recall
	recalled       string        // by recall, once it is there
	archived       []llm.Message // by compactions of the turn

	repliesMu sync.Mutex    // guards replies
	replies   []inbox.Entry // that tools have joined to the turn from their own goroutines
}

func (c *claim) newTurn(s *conversation.Conversation) *turn {
	return &turn{claim: c, session: s, compaction: c.runner.parts.Compactor.Run(compaction.Turn{ID: c.Turn, Notify: c.reply.Notify, Log: c.log}, s)}
}

// begin registers the turn with its conversation, in which tools will run.
func (t *turn) begin() {
	t.trace.Session = string(t.session.Record.ID)
	t.runner.parts.Agent.Active.Set(t.session.Record.ID, t.Claim)
}

// close lets other turns have the conversation.
func (t *turn) close() {
	t.runner.parts.Agent.Active.Remove(t.session.Record.ID)
	t.runner.parts.Sessions.Release(t.session)
}

// endFailed ends a turn whose run failed or was canceled.
func (t *turn) endFailed(ctx context.Context, err error, preview outbox.ID) {
	if errors.Is(err, store.ErrStale) {
		t.logStale(err)
		return
	}
	t.reply.AddPreview(preview)
	if ctx.Err() != nil {
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	}
	t.log.Warn("turn failed", zap.Error(err))
	t.keepHistory(ctx, err)
	t.commit(ctx, store.Turn{End: t.failed(err)})
}

// keepHistory closes the transcript of a failed turn so that the next message can
// follow. It undoes the turn instead if the provider rejected the messages.
func (t *turn) keepHistory(ctx context.Context, err error) {
	var le *llm.Error
	if errors.As(err, &le) {
		switch le.Class {
		case llm.ContextOverflow, llm.TooLarge, llm.ImageTooLarge, llm.Format:
			undoErr := t.runner.parts.Sessions.Undo(ctx, t.session)
			if undoErr == nil {
				return
			}
			t.log.Error("cannot undo turn", zap.Error(undoErr))
		}
	}
	agent.Close(t.session.Transcript, "[No answer was given: "+t.reply.ErrorText(i18n.Printer{}, err)+"]")
}

// endInterrupted ends a run that was canceled with cause.
func (t *turn) endInterrupted(ctx context.Context, cause error) {
	merges := len(t.Steps) > 0
	cause = t.stopCause(cause, !merges)
	newer, superseded := errors.AsType[active.SupersededError](cause)
	by, stopped := errors.AsType[active.StoppedError](cause)
	switch {
	case stopped:
		agent.Close(t.session.Transcript, "[Stopped by the user.]")
		t.commit(ctx, store.Turn{End: t.stopped(by)})
	case superseded && merges:
		agent.Close(t.session.Transcript, "[Interrupted by the next message.]")
		t.commit(ctx, store.Turn{End: store.End{
			Outcome: inbox.Outcome{Result: inbox.Replied, MergedInto: newer.Entry}, Rows: t.reply.DeletePreviews(),
		}})
		t.hasMoreWork = true
	default:
		t.runner.parts.Sessions.Discard(t.session)
		t.endCanceled(ctx, cause)
	}
}

// commit commits m with the changes of the conversation, and wakes the delivery of its
// rows. It retries until the store accepts the commit or the daemon stops, and reports
// whether m is committed.
func (t *turn) commit(ctx context.Context, m store.Turn) bool {
	t.auxiliaryUsage = t.auxiliaryUsage.Add(t.runner.parts.Agent.Active.Remove(t.session.Record.ID))
	if err := t.runner.parts.Sessions.Delta(t.session, &m, t.tokenUsage.Add(t.auxiliaryUsage)); err != nil {
		t.log.Error("cannot commit turn", zap.Error(err))
		t.release(ctx)
		return false
	}
	m.Trace, m.Events = t.encodeTrace(), append(m.Events, t.checkpointEvents()...)
	rows, ok := t.end(ctx, m.Outcome, func(ctx context.Context) ([]outbox.Row, error) {
		return t.runner.parts.Store.CommitTurn(ctx, t.Claim, m)
	})
	if !ok {
		return false
	}
	t.runner.parts.Sessions.Committed(t.session, m)
	t.ended(m.Outcome, rows)
	t.wakeMemory(m.Events)
	t.runner.parts.Settings.OnSessionChanged(m.Session.ID)
	return true
}

// generateTitle starts, in the background, the generation of a title for a
// conversation after its first answer. It never replaces a title that a user has
// set, and is not repeated after a restart.
func (t *turn) generateTitle(isFirst bool, answer string) {
	rec := t.session.Record
	if rec.Title != "" || !isFirst {
		return
	}
	question := inboundText(t.claim.Entries)
	t.runner.goBackground(func(ctx context.Context) {
		title, err := t.runner.parts.Settings.Title(ctx, rec.ID, question, answer)
		if title != "" {
			_, err = t.runner.parts.Store.SuggestTitle(ctx, rec.ID, title)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.log.Warn("cannot generate title", zap.Error(err))
		}
	})
}

// inboundText returns the texts of entries, one per line.
func inboundText(entries []inbox.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Inbound.Text + "\n")
	}
	return strings.TrimSpace(b.String())
}

// speak also sends an answer as a recording, if the settings of the session say so. The
// recording is made in the background and is not repeated after a restart.
func (t *turn) speak(answer string) {
	if t.session.Record.Settings.Voice {
		t.runner.goBackground(func(ctx context.Context) { t.reply.Speak(ctx, answer) })
	}
}

// goBackground runs f on a new goroutine. Its context is canceled by Close, and Wait
// waits for it.
func (r *Runner) goBackground(f func(ctx context.Context)) {
	r.background.Go(func() { f(r.open) })
}
