package turn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/outbox"
)

// endFailed ends a turn whose run failed or was canceled.
func (t *turn) endFailed(ctx context.Context, err error, preview outbox.ID) {
	if errors.Is(err, inbox.ErrStale) {
		t.logStale(err)
		return
	}
	t.addPreview(preview)
	if ctx.Err() != nil {
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	}
	t.log.Warn("turn failed", zap.Error(err))
	t.trace.Error = err.Error()
	rows := t.deletePreviewRows()
	rows = append(rows, t.failureRows(err)...)
	t.keepHistory(ctx, err)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: t.failureText(i18n.Printer{}, err)}, Rows: rows})
}

// keepHistory closes the transcript of a failed turn so that the next message can
// follow. It undoes the turn instead if the provider rejected the messages.
func (t *turn) keepHistory(ctx context.Context, err error) {
	var le *llm.Error
	if errors.As(err, &le) {
		switch le.Class {
		case llm.ContextOverflow, llm.TooLarge, llm.ImageTooLarge, llm.Format:
			undoErr := t.undoTurn(ctx)
			if undoErr == nil {
				return
			}
			t.log.Error("cannot undo turn", zap.Error(undoErr))
		}
	}
	agent.Close(t.session.transcript, "[No answer was given: "+t.failureText(i18n.Printer{}, err)+"]")
}

// undoTurn restores the conversation as it was before the turn. The turn's
// compactions are dropped too, because their results contain the input.
func (t *turn) undoTurn(ctx context.Context) error {
	if len(t.compactions) == 0 {
		t.session.transcript.Truncate(t.storedMessages)
	} else {
		before := &sessionState{record: t.session.record}
		if err := t.runner.readPromptAndTranscript(context.WithoutCancel(ctx), before); err != nil {
			return err
		}
		t.session.prefix, t.session.transcript, t.session.bytes = before.prefix, before.transcript, before.bytes
		t.session.engine, t.session.savedEngineState = nil, nil // its state includes the dropped compactions
		t.compactions, t.promptChanged, t.storedMessages = nil, false, before.transcript.Len()
	}
	if t.session.record.PromptMessages == 0 || t.session.record.PromptMessages > t.storedMessages {
		t.session.record.PromptTokens, t.session.record.PromptMessages = 0, 0
	}
	t.session.record.PendingBreak = string(ledger.Undo)
	return nil
}

// endInterrupted ends a run that was canceled with cause.
func (t *turn) endInterrupted(ctx context.Context, cause error) {
	var newer SupersededError
	var stopped StoppedError
	merges := len(t.claim.Steps) > 0 && t.session != nil
	if errors.As(cause, &newer) {
		if stop := t.runner.runs.stopCause(t.claim.Lane, !merges); stop != nil {
			cause = stop
		}
	}
	switch {
	case errors.Is(cause, lane.ErrClosed):
		t.releaseClaim(ctx)
		t.hasMoreWork = false
	case errors.As(cause, &stopped):
		if t.session != nil {
			agent.Close(t.session.transcript, "[Stopped by the user.]")
		}
		t.commit(ctx, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Cancelled, Reason: stopped.Person}, Rows: t.deletePreviewRows(),
		})
	case errors.As(cause, &newer) && merges:
		agent.Close(t.session.transcript, "[Interrupted by the next message.]")
		t.commit(ctx, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Replied, MergedInto: newer.Entry}, Rows: t.deletePreviewRows(),
		})
		t.hasMoreWork = true
	case errors.As(cause, &newer):
		t.releaseClaim(ctx)
	default:
		t.fail(ctx, cause)
	}
}

// releaseClaim releases the claim, so that its entries wait again. Only steps that
// are on disk remain of the run.
func (t *turn) releaseClaim(ctx context.Context) {
	// After a compaction, or with calls in its ledger that are not stored, the state
	// in memory differs from the store and must not be cached.
	if t.session != nil && len(t.compactions) == 0 && len(t.calls) == 0 {
		t.session.transcript.Truncate(t.storedMessages)
		if t.session.created == nil {
			t.runner.cache.put(t.session)
		}
	}
	t.hasMoreWork = true
	if len(t.claim.Steps) == 0 {
		if _, err := t.runner.opts.Delivery.Enqueue(context.WithoutCancel(ctx), t.deletePreviewRows()...); err != nil {
			t.log.Error("cannot delete preview", zap.Error(err))
		}
	}
	// A claim that is not released blocks its lane until the lease expires.
	err := t.writeUntilStored(context.WithoutCancel(ctx), "cannot release claim", func() {}, func(ctx context.Context) error { return t.runner.opts.Store.Release(ctx, t.claim) })
	if errors.Is(err, inbox.ErrConflict) {
		t.log.Error("cannot release claim", zap.Error(err))
	}
}

// addPreview adds a preview of the turn, if it is not 0, to those that are to be deleted.
func (t *turn) addPreview(preview outbox.ID) {
	if preview != 0 && !slices.ContainsFunc(t.claim.Previews, func(p outbox.Row) bool { return p.ID == preview }) {
		t.claim.Previews = append(t.claim.Previews, outbox.Row{ID: preview})
	}
}

// deletePreviewRows returns rows that delete the previews of the turn.
func (t *turn) deletePreviewRows() []outbox.Row {
	var rows []outbox.Row
	for _, p := range t.claim.Previews {
		rows = append(rows, outbox.DeletePreviewRow(t.last().Inbound.Address, t.claim.Turn, p.ID))
	}
	return rows
}

// previewsBefore returns the earlier previews of the answer, except preview, and the
// rows that delete such previews; see outbox.Row.Follows.
func (t *turn) previewsBefore(preview outbox.ID) []outbox.ID {
	ids := slices.Clone(t.claim.Deletions)
	for _, p := range t.claim.Previews {
		if p.ID != preview {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// failureText returns why there is no answer and what the user can do, masked:
// it is stored, and models read it.
func (t *turn) failureText(p i18n.Printer, err error) string {
	text := ""
	if occurrence := t.first().Occurrence; occurrence != nil {
		text = failure.Job(p, err, occurrence.Job)
	} else {
		text = failure.Message(p, err)
	}
	return t.runner.opts.Agent.Mask(text)
}

// failureRows returns rows with the failure text of err.
func (t *turn) failureRows(err error) []outbox.Row {
	return t.render(fmt.Sprintf("⚠️ %s (ref %s)", t.failureText(t.Printer, err), t.claim.Turn), t.failureDraft())
}

// failureDraft returns the draft of a failure message. It always quotes the first
// message of the turn.
func (t *turn) failureDraft() delivery.Draft {
	f := t.draft()
	f.ReplyTo, f.Purpose = t.first().Inbound.ID, chat.PurposeFailure
	return f
}

// fail ends a turn that failed outside the agent run. It commits nothing of the
// conversation.
func (t *turn) fail(ctx context.Context, err error) {
	if errors.Is(err, inbox.ErrStale) {
		t.logStale(err)
		return
	}
	t.log.Error("turn failed", zap.Error(err))
	t.trace.Error = err.Error()
	t.session = nil
	rows := append(t.deletePreviewRows(), t.failureRows(err)...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: t.failureText(i18n.Printer{}, err)}, Rows: rows})
}

// quarantine ends a turn whose entries have crashed the process repeatedly.
func (t *turn) quarantine(ctx context.Context) {
	t.log.Error("entry quarantined", zap.Stringer("entry", t.first().ID), zap.Int("crashes", t.first().Crashes))
	text := t.T("⚠️ I stopped processing this message because the daemon crashed %d times while handling it. You can send it again in different words. (ref %s)", t.first().Crashes, t.claim.Turn)
	if n := len(t.claim.Entries); n > 1 {
		text = t.T("⚠️ I stopped processing these %d messages because the daemon crashed %d times while handling them. You can send them again in different words. (ref %s)", n, t.first().Crashes, t.claim.Turn)
	}
	if occurrence := t.first().Occurrence; occurrence != nil {
		text = t.T("⚠️ I stopped this run because the daemon crashed %d times during it. `/cron run %s` starts a new run. (ref %s)", t.first().Crashes, string(occurrence.Job), t.claim.Turn)
	}
	t.endWithText(ctx, text, "set aside")
}

// endWithText ends a turn as failed with a text for the user and the given reason. It
// commits nothing of the conversation.
func (t *turn) endWithText(ctx context.Context, text, reason string) {
	rows := append(t.deletePreviewRows(), t.render(text, t.failureDraft())...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: reason}, Rows: rows})
}

// endTooOld ends a turn that is abandoned for reason. The message stays in its
// conversation; a scheduled run leaves nothing there.
func (t *turn) endTooOld(ctx context.Context, reason failure.AbandonReason) {
	if occurrence := t.first().Occurrence; occurrence != nil {
		t.endWithText(ctx, reason.Job(t.Printer, occurrence.Job), "too late")
		return
	}
	s, err := t.runner.lockSession(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil: // canceled while waiting for another turn of the session
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.locks.Release(s.record.ID)
	t.session = s
	t.storedMessages = s.transcript.Len()
	m, _ := t.runner.composeInput(ctx, t.claim.Entries, &s.record)
	agent.Close(s.transcript, "")
	s.transcript.Append(t.runner.opts.Agent.MaskMessage(m))
	agent.Close(s.transcript, "[Not answered: it came while the daemon was away.]")
	rows := append(t.deletePreviewRows(), t.render(reason.Message(t.Printer, len(t.claim.Entries)), t.failureDraft())...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: "too late"}, Rows: rows})
}

// commit commits m with the turn's changes of its session, and wakes the delivery of
// its rows. It retries until the store accepts the commit or the daemon stops, and
// reports whether m is committed.
func (t *turn) commit(ctx context.Context, m inbox.Commit) bool {
	if err := t.completeCommit(&m); err != nil {
		t.log.Error("cannot commit turn", zap.Error(err))
		t.releaseClaim(ctx)
		return false
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		rows, err := t.runner.opts.Store.CommitTurn(context.WithoutCancel(ctx), t.claim, m)
		if err == nil {
			if t.session != nil {
				t.session.created, t.session.record = nil, m.Session
				for _, row := range m.Messages {
					t.session.bytes += int64(len(row))
				}
				t.runner.cache.put(t.session)
			}
			t.runner.opts.Delivery.WakeRows(rows)
			t.result = resultOf(m.Outcome)
			t.showOutcome(m.Outcome)
			if occurrence := t.first().Occurrence; occurrence != nil && t.runner.opts.Scheduled != nil {
				t.runner.opts.Scheduled.RunEnded(*occurrence)
			}
			if m.Session.ID != "" {
				t.runner.sessionChanged(m.Session.ID)
			}
			return true
		}
		if errors.Is(err, inbox.ErrStale) {
			t.logStale(err)
			return false
		}
		t.log.Error("cannot commit turn", zap.Error(err))
		if errors.Is(err, inbox.ErrConflict) && !t.commitRejected {
			t.commitRejected = true
			t.fail(ctx, err) // without the conversation, whose state in memory is wrong
			return false
		}
		select {
		case <-time.After(wait):
		case <-t.runner.closing:
			t.releaseClaim(ctx)
			return false
		}
	}
}

// completeCommit adds the changes of the turn's session, and its trace, to m.
func (t *turn) completeCommit(m *inbox.Commit) (err error) {
	t.trace.Took = time.Since(t.trace.Started)
	m.Trace = t.trace.encode(t.runner.opts.Agent.Mask)
	if t.session == nil {
		return nil
	}
	if m.Messages, err = encodeMessages(t.session.transcript.Since(t.storedMessages)); err != nil {
		return err
	}
	m.Compactions, m.Calls = t.compactions, t.calls
	if t.promptChanged {
		if m.Prompt, err = json.Marshal(t.session.prefix); err != nil {
			return fmt.Errorf("encode prompt of %s: %w", t.session.record.ID, err)
		}
		t.session.record.Revision++
		t.promptChanged = false
	}
	// A running compaction uses the engine; a later turn stores its state.
	if e := t.session.engine; e != nil && t.runner.passes.Get(t.session.record.ID) == nil {
		if state := e.State(); state != nil && !bytes.Equal(state, t.session.savedEngineState) {
			m.Engine, t.session.savedEngineState = state, state
		}
	}
	if t.session.record.PendingBreak == "" { // declared for a call that was not made
		t.session.record.PendingBreak = string(t.session.ledger.Declared())
	}
	t.auxiliaryUsage = t.auxiliaryUsage.Add(t.runner.opts.Active.Remove(t.session.record.ID))
	m.Create = t.session.created
	m.Session = t.session.record
	m.Session.Messages = t.session.transcript.Len()
	m.Session.Turns++
	m.Session.Crashes = 0
	m.Session.Calls += len(t.calls)
	m.Session.Updated = time.Now().UTC()
	m.Session.Usage = t.sessionUsage()
	return nil
}

// sessionUsage returns the encoded usage of the session including this turn.
func (t *turn) sessionUsage() json.RawMessage {
	var sum llm.Usage
	if len(t.session.record.Usage) > 0 {
		if err := json.Unmarshal(t.session.record.Usage, &sum); err != nil {
			t.log.Warn("cannot decode session usage", zap.Error(err))
		}
	}
	raw, err := json.Marshal(sum.Add(t.tokenUsage).Add(t.auxiliaryUsage))
	if err != nil {
		return t.session.record.Usage
	}
	return raw
}

// logStale logs that another process or claim has the entries of the turn. Nothing
// else is to be done.
func (t *turn) logStale(err error) { t.log.Warn("claim is stale", zap.Error(err)) }
