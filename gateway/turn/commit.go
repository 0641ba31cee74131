package turn

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/active"
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
	t.reply.AddPreview(preview)
	if ctx.Err() != nil {
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	}
	t.log.Warn("turn failed", zap.Error(err))
	t.trace.Error = err.Error()
	rows := t.reply.DeletePreviews()
	rows = append(rows, t.reply.Failure(err)...)
	t.keepHistory(ctx, err)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: t.reply.FailureText(i18n.Printer{}, err)}, Rows: rows})
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
	agent.Close(t.session.Transcript, "[No answer was given: "+t.reply.FailureText(i18n.Printer{}, err)+"]")
}

// endInterrupted ends a run that was canceled with cause.
func (t *turn) endInterrupted(ctx context.Context, cause error) {
	var newer active.SupersededError
	var stopped active.StoppedError
	merges := len(t.claim.Steps) > 0 && t.session != nil
	if errors.As(cause, &newer) {
		if stop := t.runner.runs.StopCause(t.claim.Lane, !merges); stop != nil {
			cause = stop
		}
	}
	switch {
	case errors.Is(cause, lane.ErrClosed):
		t.releaseClaim(ctx)
		t.hasMoreWork = false
	case errors.As(cause, &stopped):
		if t.session != nil {
			agent.Close(t.session.Transcript, "[Stopped by the user.]")
		}
		t.commit(ctx, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Cancelled, Reason: stopped.Person}, Rows: t.reply.DeletePreviews(),
		})
	case errors.As(cause, &newer) && merges:
		agent.Close(t.session.Transcript, "[Interrupted by the next message.]")
		t.commit(ctx, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Replied, MergedInto: newer.Entry}, Rows: t.reply.DeletePreviews(),
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
	if t.session != nil {
		t.runner.parts.Sessions.Discard(t.session)
	}
	t.hasMoreWork = true
	if len(t.claim.Steps) == 0 {
		if _, err := t.reply.Delivery.Enqueue(context.WithoutCancel(ctx), t.reply.DeletePreviews()...); err != nil {
			t.log.Error("cannot delete preview", zap.Error(err))
		}
	}
	// A claim that is not released blocks its lane until the lease expires.
	err := t.writeUntilStored(context.WithoutCancel(ctx), "cannot release claim", func() {}, func(ctx context.Context) error { return t.runner.parts.Store.Release(ctx, t.claim) })
	if errors.Is(err, inbox.ErrConflict) {
		t.log.Error("cannot release claim", zap.Error(err))
	}
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
	rows := append(t.reply.DeletePreviews(), t.reply.Failure(err)...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: t.reply.FailureText(i18n.Printer{}, err)}, Rows: rows})
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
	rows := append(t.reply.DeletePreviews(), t.reply.Text(text, t.reply.FailureDraft())...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: reason}, Rows: rows})
}

// endTooOld ends a turn that is abandoned for reason. The message stays in its
// conversation; a scheduled run leaves nothing there.
func (t *turn) endTooOld(ctx context.Context, reason failure.AbandonReason) {
	if occurrence := t.first().Occurrence; occurrence != nil {
		t.endWithText(ctx, reason.Job(t.Printer, occurrence.Job), "too late")
		return
	}
	s, err := t.runner.parts.Sessions.Use(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil: // canceled while waiting for another turn of the session
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.parts.Sessions.Release(s)
	t.session = s
	m, _ := t.composeInput(ctx, t.claim.Entries, &s.Record)
	agent.Close(s.Transcript, "")
	s.Transcript.Append(t.runner.parts.Agent.Agent.MaskMessage(m))
	agent.Close(s.Transcript, "[Not answered: it came while the daemon was away.]")
	rows := append(t.reply.DeletePreviews(), t.reply.Text(reason.Message(t.Printer, len(t.claim.Entries)), t.reply.FailureDraft())...)
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
	var rows []outbox.Row
	err := t.writeUntilStored(context.WithoutCancel(ctx), "cannot commit turn", func() {}, func(ctx context.Context) (err error) {
		rows, err = t.runner.parts.Store.CommitTurn(ctx, t.claim, m)
		return err
	})
	switch {
	case errors.Is(err, inbox.ErrStale):
		t.logStale(err)
		return false
	case errors.Is(err, inbox.ErrConflict):
		t.endRefused(ctx, m, err)
		return false
	case err != nil: // the daemon stops
		t.releaseClaim(ctx)
		return false
	}
	if t.session != nil {
		t.runner.parts.Sessions.Committed(t.session, m)
	}
	t.reply.Delivery.WakeRows(rows)
	t.result = resultOf(m.Outcome)
	t.reply.ShowOutcome(m.Outcome)
	if occurrence := t.first().Occurrence; occurrence != nil {
		t.runner.parts.Work.Scheduled.RunEnded(*occurrence)
	}
	if m.Session.ID != "" {
		t.runner.parts.Settings.OnSessionChanged(m.Session.ID)
	}
	return true
}

// endRefused ends a turn whose commit m contradicts the store: with a failure text and
// without the conversation, whose state in memory is wrong; if that is refused too,
// without a text. If even that is refused the claim stays until the next start, which
// counts a crash of the turn.
func (t *turn) endRefused(ctx context.Context, m inbox.Commit, err error) {
	t.refusals++
	t.log.Error("commit refused", zap.Int("refusals", t.refusals), zap.Error(err))
	switch t.refusals {
	case 1:
		t.fail(ctx, err)
	case 2:
		t.commit(ctx, inbox.Commit{Outcome: m.Outcome})
	default:
		t.log.Error("turn given up until the next start", zap.Stringer("entry", t.first().ID))
	}
}

// completeCommit adds the changes of the turn's session, and its trace, to m.
func (t *turn) completeCommit(m *inbox.Commit) error {
	t.trace.Took = time.Since(t.trace.Started)
	m.Trace = t.trace.encode(t.runner.parts.Agent.Agent.Mask)
	if t.session == nil {
		return nil
	}
	t.auxiliaryUsage = t.auxiliaryUsage.Add(t.runner.parts.Agent.Active.Remove(t.session.Record.ID))
	return t.runner.parts.Sessions.Delta(t.session, m, t.tokenUsage.Add(t.auxiliaryUsage))
}

// logStale logs that another process or claim has the entries of the turn. Nothing
// else is to be done.
func (t *turn) logStale(err error) { t.log.Warn("claim is stale", zap.Error(err)) }

// writeUntilStored calls write until it succeeds, because for example a full disk
// must not cost the result of a turn. It ends with an error when ctx or the daemon
// ends, and for inbox.ErrStale and inbox.ErrConflict. It logs each failure with
// message, and calls touch before each wait.
func (t *turn) writeUntilStored(ctx context.Context, message string, touch func(), write func(context.Context) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := write(context.WithoutCancel(ctx))
		if err == nil || errors.Is(err, inbox.ErrStale) || errors.Is(err, inbox.ErrConflict) {
			return err
		}
		t.log.Error(message, zap.Error(err))
		touch()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		case <-t.runner.closing:
			return err
		}
	}
}
