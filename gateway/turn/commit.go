package turn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// endFailed ends a turn whose run did not reach an answer.
func (t *turn) endFailed(ctx context.Context, err error, preview outbox.ID) {
	if errors.Is(err, inbox.ErrStale) {
		t.stale(err)
		return
	}
	if preview != 0 && len(t.claim.Previews) == 0 {
		t.claim.Previews = append(t.claim.Previews, outbox.Row{ID: preview})
	}
	if ctx.Err() != nil {
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	}
	t.log.Warn("turn failed", zap.Error(err))
	t.trace.Error = err.Error()
	rows := t.deletePreviews()
	rows = append(rows, t.failureNotice(err)...)
	t.keepHistory(ctx, err)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: t.sentence(i18n.Printer{}, err)}, Rows: rows})
}

// keepHistory leaves what was said in the transcript, closed so that the next
// message can follow, unless it is what the provider refuses to read.
func (t *turn) keepHistory(ctx context.Context, err error) {
	var le *llm.Error
	if errors.As(err, &le) {
		switch le.Class {
		case llm.ContextOverflow, llm.TooLarge, llm.ImageTooLarge, llm.Format:
			wrong := t.undo(ctx)
			if wrong == nil {
				return
			}
			t.log.Error("take back what was said", zap.Error(wrong))
		}
	}
	agent.Close(t.session.transcript, "[No answer was given: "+t.sentence(i18n.Printer{}, err)+"]")
}

// undo takes back what the turn did to its conversation. Its passes go too: what
// they put in the place of the transcript holds the input.
func (t *turn) undo(ctx context.Context) error {
	if len(t.passes) == 0 {
		t.session.transcript.Truncate(t.stored)
	} else {
		was := &sessionState{record: t.session.record}
		if err := t.runner.read(context.WithoutCancel(ctx), was); err != nil {
			return err
		}
		t.session.prefix, t.session.transcript, t.session.bytes = was.prefix, was.transcript, was.bytes
		t.session.engine, t.session.savedEngineState = nil, nil // it has taken down passes that are none
		t.passes, t.reprompt, t.stored = nil, false, was.transcript.Len()
	}
	if t.session.record.PromptMessages == 0 || t.session.record.PromptMessages > t.stored {
		t.session.record.PromptTokens, t.session.record.PromptMessages = 0, 0
	}
	t.session.record.PendingBreak = string(ledger.Undo)
	return nil
}

// endInterrupted ends a run that was cut short on purpose.
func (t *turn) endInterrupted(ctx context.Context, cause error) {
	var newer SupersededError
	var stopped StoppedError
	switch {
	case errors.Is(cause, lane.ErrClosed):
		t.release(ctx)
		t.moreWork = false
	case errors.As(cause, &stopped):
		if t.session != nil {
			agent.Close(t.session.transcript, "[Stopped by the user.]")
		}
		t.commit(ctx, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Cancelled, Reason: stopped.Person}, Rows: t.deletePreviews(),
		})
	case errors.As(cause, &newer) && len(t.claim.Steps) > 0 && t.session != nil:
		agent.Close(t.session.transcript, "[Interrupted by the next message.]")
		t.commit(ctx, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Replied, MergedInto: newer.Entry}, Rows: t.deletePreviews(),
		})
		t.moreWork = true
	case errors.As(cause, &newer):
		t.release(ctx)
	default:
		t.fail(ctx, cause)
	}
}

// release lets the entries wait again. Nothing of the run stays, unless steps
// of it are on disk.
func (t *turn) release(ctx context.Context) {
	// After a pass, or with calls in its ledger that are not stored, what memory
	// has is not what the store has.
	if t.session != nil && len(t.passes) == 0 && len(t.calls) == 0 {
		t.session.transcript.Truncate(t.stored)
		if t.session.created == nil {
			t.runner.cache.put(t.session)
		}
	}
	t.moreWork = true
	if len(t.claim.Steps) == 0 {
		if _, err := t.runner.opts.Delivery.Enqueue(context.WithoutCancel(ctx), t.deletePreviews()...); err != nil {
			t.log.Error("take the preview back", zap.Error(err))
		}
	}
	// A claim that is not given back would hold its lane until the lease ends.
	err := t.commitUntilStored(context.WithoutCancel(ctx), "release", func() {}, func(ctx context.Context) error { return t.runner.opts.Store.Release(ctx, t.claim) })
	if errors.Is(err, inbox.ErrConflict) {
		t.log.Error("release", zap.Error(err))
	}
}

// deletePreviews are rows that take back what was shown of an answer that never came.
func (t *turn) deletePreviews() []outbox.Row {
	var rows []outbox.Row
	for _, p := range t.claim.Previews {
		rows = append(rows, delivery.DeletePreviewRow(t.last().Inbound.Address, t.claim.Turn, p.ID))
	}
	return rows
}

// sentence is why there is no answer, and what to do.
func (t *turn) sentence(p i18n.Printer, err error) string {
	if slot := t.first().Occurrence; slot != nil {
		return failure.Job(p, err, slot.Job)
	}
	return failure.Message(p, err)
}

// failureNotice tells the person what went wrong and what to do.
func (t *turn) failureNotice(err error) []outbox.Row {
	return t.render(fmt.Sprintf("⚠️ %s (ref %s)", t.sentence(t.Printer, err), t.claim.Turn), t.quoting())
}

// quoting is a draft for why there is no answer. It shows which message it is
// about, wherever it is.
func (t *turn) quoting() delivery.Draft {
	f := t.draft()
	f.ReplyTo, f.Purpose = t.first().Inbound.ID, chat.PurposeFailure
	return f
}

// fail ends a turn that could not even be led to the agent.
func (t *turn) fail(ctx context.Context, err error) {
	if errors.Is(err, inbox.ErrStale) {
		t.stale(err)
		return
	}
	t.log.Error("turn failed", zap.Error(err))
	t.trace.Error = err.Error()
	t.session = nil
	rows := append(t.deletePreviews(), t.failureNotice(err)...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: t.sentence(i18n.Printer{}, err)}, Rows: rows})
}

// quarantine ends a turn that has killed the process before.
func (t *turn) quarantine(ctx context.Context) {
	t.log.Error("set aside", zap.Stringer("entry", t.first().ID), zap.Int("crashes", t.first().Crashes))
	text := t.T("⚠️ I set this message aside: the daemon died %d times while it worked on it. Send it again in other words if it matters. (ref %s)", t.first().Crashes, t.claim.Turn)
	if n := len(t.claim.Entries); n > 1 {
		text = t.T("⚠️ I set these %d messages aside: the daemon died %d times while it worked on them. Send them again in other words if it matters. (ref %s)", n, t.first().Crashes, t.claim.Turn)
	}
	if slot := t.first().Occurrence; slot != nil {
		text = t.T("⚠️ I set it aside: the daemon died %d times while it ran. `/cron run %s` runs it once more if it matters. (ref %s)", t.first().Crashes, string(slot.Job), t.claim.Turn)
	}
	t.drop(ctx, text, "set aside")
}

// drop ends a turn of which no conversation comes, with a text that says so.
func (t *turn) drop(ctx context.Context, text, why string) {
	rows := append(t.deletePreviews(), t.render(text, t.quoting())...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: why}, Rows: rows})
}

// endTooOld ends a turn that would come too late: of a message, which is kept in its
// conversation, or of a scheduled prompt.
func (t *turn) endTooOld(ctx context.Context, why failure.AbandonReason) {
	if slot := t.first().Occurrence; slot != nil {
		t.drop(ctx, why.Job(t.Printer, slot.Job), "too late")
		return
	}
	s, err := t.runner.lockSession(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil: // it waited for another turn of the session
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.locks.release(s.record.ID)
	t.session = s
	t.stored = s.transcript.Len()
	m, _ := t.runner.composeInput(ctx, t.claim.Entries, &s.record)
	agent.Close(s.transcript, "")
	s.transcript.Append(m)
	agent.Close(s.transcript, "[Not answered: it came while the daemon was away.]")
	rows := append(t.deletePreviews(), t.render(why.Message(t.Printer, len(t.claim.Entries)), t.quoting())...)
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: "too late"}, Rows: rows})
}

// commit makes m true, with what the turn added to its transcript, and sends
// what it says. It tries until the store takes it, or the daemon stops, and
// reports whether m is true.
func (t *turn) commit(ctx context.Context, m inbox.Commit) bool {
	if err := t.complete(&m); err != nil {
		t.log.Error("commit", zap.Error(err))
		t.release(ctx)
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
			t.settled(m.Outcome)
			if slot := t.first().Occurrence; slot != nil && t.runner.opts.Scheduled != nil {
				t.runner.opts.Scheduled.RunEnded(*slot)
			}
			if t.runner.opts.OnCommit != nil {
				t.runner.opts.OnCommit()
			}
			return true
		}
		if errors.Is(err, inbox.ErrStale) {
			t.stale(err)
			return false
		}
		t.log.Error("commit", zap.Error(err))
		if errors.Is(err, inbox.ErrConflict) && !t.refused {
			t.refused = true
			t.fail(ctx, err) // without the conversation: what memory had of it is wrong
			return false
		}
		select {
		case <-time.After(wait):
		case <-t.runner.closing:
			t.release(ctx)
			return false
		}
	}
}

// complete puts into m what follows from the turn itself.
func (t *turn) complete(m *inbox.Commit) (err error) {
	t.trace.Took = time.Since(t.trace.Started)
	m.Trace = t.trace.encode()
	if t.session == nil {
		return nil
	}
	if m.Messages, err = rows(t.session.transcript.Since(t.stored)); err != nil {
		return err
	}
	m.Compactions, m.Calls = t.passes, t.calls
	if t.reprompt {
		if m.Prompt, err = json.Marshal(t.session.prefix); err != nil {
			return fmt.Errorf("prompt of %s: %w", t.session.record.ID, err)
		}
		t.session.record.Revision++
		t.reprompt = false
	}
	// A pass that is still under way has the engine; a later turn keeps its state.
	if e := t.session.engine; e != nil && t.runner.compactions.of(t.session.record.ID) == nil {
		if state := e.State(); state != nil && !bytes.Equal(state, t.session.savedEngineState) {
			m.Engine, t.session.savedEngineState = state, state
		}
	}
	if t.session.record.PendingBreak == "" { // declared for a call that was never made
		t.session.record.PendingBreak = string(t.session.ledger.Declared())
	}
	t.summarised = t.summarised.Add(t.runner.active.remove(t.session.record.ID))
	m.Create = t.session.created
	m.Session = t.session.record
	m.Session.Messages = t.session.transcript.Len()
	m.Session.Turns++
	m.Session.Crashes = 0
	m.Session.Calls += len(t.calls)
	m.Session.Updated = time.Now().UTC()
	m.Session.Usage = t.usage()
	return nil
}

// usage is the session's sum with this turn's calls.
func (t *turn) usage() json.RawMessage {
	var sum llm.Usage
	if len(t.session.record.Usage) > 0 {
		if err := json.Unmarshal(t.session.record.Usage, &sum); err != nil {
			t.log.Warn("usage", zap.Error(err))
		}
	}
	raw, err := json.Marshal(sum.Add(t.tokenUsage).Add(t.summarised))
	if err != nil {
		return t.session.record.Usage
	}
	return raw
}

// stale leaves everything to whoever has the claim now.
func (t *turn) stale(err error) { t.log.Warn("the turn is somebody else's now", zap.Error(err)) }
