package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/outbox"
)

// broken ends a turn whose run did not reach an answer. before is the length
// that the transcript had.
func (t *turn) broken(ctx context.Context, err error, before int, preview outbox.ID) {
	if errors.Is(err, inbox.ErrStale) {
		t.stale(err)
		return
	}
	if preview != 0 && len(t.c.Previews) == 0 {
		t.c.Previews = append(t.c.Previews, outbox.Row{ID: preview})
	}
	if ctx.Err() != nil {
		t.cut(ctx, context.Cause(ctx), before)
		return
	}
	t.log.Warn("turn failed", zap.Error(err))
	t.trace.Error = err.Error()
	rows := t.takeBack()
	rows = append(rows, t.apology(err)...)
	t.keepHistory(err, before)
	t.commit(ctx, before, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Why: sentence(err)}, Rows: rows})
}

// keepHistory leaves what was said in the transcript, closed so that the next
// message can follow, unless it is what the provider refuses to read.
func (t *turn) keepHistory(err error, before int) {
	var le *llm.Error
	if errors.As(err, &le) {
		switch le.Class {
		case llm.Overflow, llm.TooLarge, llm.ImageTooLarge, llm.Format:
			t.s.tr.Truncate(before)
			return
		}
	}
	if t.s.tr.Len() > before {
		agent.Close(t.s.tr, "[No answer was given: "+sentence(err)+"]")
	}
}

// cut ends a run that was cut short on purpose.
func (t *turn) cut(ctx context.Context, cause error, before int) {
	var newer Newer
	var stopped Stopped
	switch {
	case errors.Is(cause, lane.ErrClosed):
		t.release(ctx, before)
		t.again = false
	case errors.As(cause, &stopped):
		if t.s != nil && t.s.tr.Len() > before {
			agent.Close(t.s.tr, "[Stopped by the user.]")
		}
		t.commit(ctx, before, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Cancelled, Why: stopped.By}, Rows: t.takeBack(),
		})
	case errors.As(cause, &newer) && len(t.c.Steps) > 0 && t.s != nil:
		agent.Close(t.s.tr, "[Interrupted by the next message.]")
		t.commit(ctx, before, inbox.Commit{
			Outcome: inbox.Outcome{Result: inbox.Replied, With: newer.By}, Rows: t.takeBack(),
		})
		t.again = true
	case errors.As(cause, &newer):
		t.release(ctx, before)
	default:
		t.fail(ctx, cause)
	}
}

// release lets the entries wait again. Nothing of the run stays, unless steps
// of it are on disk.
func (t *turn) release(ctx context.Context, before int) {
	if t.s != nil {
		t.s.tr.Truncate(before)
		if t.s.open == nil {
			t.r.cache.put(t.s)
		}
	}
	t.again = true
	if len(t.c.Steps) == 0 {
		if _, err := t.r.o.Delivery.Enqueue(context.WithoutCancel(ctx), t.takeBack()...); err != nil {
			t.log.Error("take the preview back", zap.Error(err))
		}
	}
	if err := t.r.o.Store.Release(context.WithoutCancel(ctx), t.c); err != nil && !errors.Is(err, inbox.ErrStale) {
		t.log.Error("release", zap.Error(err))
	}
}

// takeBack are rows that take back what was shown of an answer that never came.
func (t *turn) takeBack() []outbox.Row {
	var rows []outbox.Row
	for _, p := range t.c.Previews {
		rows = append(rows, delivery.Gone(t.last().In.From, t.c.Turn, p.ID))
	}
	return rows
}

// apology tells the person what went wrong and what to do.
func (t *turn) apology(err error) []outbox.Row {
	return t.r.o.Delivery.Render(fmt.Sprintf("⚠️ %s (ref %s)", sentence(err), t.c.Turn), t.quoting())
}

// quoting is a draft that shows which message it is about, wherever it is.
func (t *turn) quoting() delivery.Draft {
	f := t.draft()
	f.ReplyTo = t.first().In.ID
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
	t.s = nil
	rows := append(t.takeBack(), t.apology(err)...)
	t.commit(ctx, 0, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Why: sentence(err)}, Rows: rows})
}

// setAside ends a turn that has killed the process before.
func (t *turn) setAside(ctx context.Context) {
	t.log.Error("set aside", zap.Stringer("entry", t.first().ID), zap.Int("crashes", t.first().Crashes))
	what, it := "this message", "it"
	if n := len(t.c.Entries); n > 1 {
		what, it = fmt.Sprintf("these %d messages", n), "them"
	}
	text := fmt.Sprintf("⚠️ I set %s aside: the daemon died %d times while it worked on %s. Send %[3]s again in other words if it matters. (ref %[4]s)", what, t.first().Crashes, it, t.c.Turn)
	rows := append(t.takeBack(), t.r.o.Delivery.Render(text, t.quoting())...)
	t.commit(ctx, 0, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Why: "set aside"}, Rows: rows})
}

// tooLate ends a turn that would come too late. What was said is kept.
func (t *turn) tooLate(ctx context.Context, text string) {
	s, err := t.r.use(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil: // it waited for another turn of the session
		t.cut(ctx, context.Cause(ctx), 0)
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.r.sole.leave(s.rec.ID)
	t.s = s
	before := s.tr.Len()
	m, _ := t.r.compose(ctx, t.c.Entries, s.rec.Shared)
	s.tr.Append(m)
	agent.Close(s.tr, "[Not answered: it came while the daemon was away.]")
	rows := append(t.takeBack(), t.r.o.Delivery.Render(text, t.quoting())...)
	t.commit(ctx, before, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Failed, Why: "too late"}, Rows: rows})
}

// commit makes m true, with what the turn added to its transcript, and sends
// what it says. It tries until the store takes it, or the daemon stops.
func (t *turn) commit(ctx context.Context, before int, m inbox.Commit) {
	if err := t.complete(&m, before); err != nil {
		t.log.Error("commit", zap.Error(err))
		t.release(ctx, before)
		return
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		rows, err := t.r.o.Store.CommitTurn(context.WithoutCancel(ctx), t.c, m)
		if err == nil {
			if t.s != nil {
				t.s.open, t.s.rec = nil, m.Session
				for _, row := range m.Messages {
					t.s.bytes += int64(len(row))
				}
				t.r.cache.put(t.s)
			}
			t.r.o.Delivery.WakeRows(rows)
			return
		}
		if errors.Is(err, inbox.ErrStale) {
			t.stale(err)
			return
		}
		t.log.Error("commit", zap.Error(err))
		if errors.Is(err, inbox.ErrRefused) && !t.refused {
			t.refused = true
			t.fail(ctx, err) // without the conversation: what memory had of it is wrong
			return
		}
		select {
		case <-time.After(wait):
		case <-t.r.closing:
			t.release(ctx, before)
			return
		}
	}
}

// complete puts into m what follows from the turn itself.
func (t *turn) complete(m *inbox.Commit, before int) error {
	t.trace.Took = time.Since(t.trace.Began)
	m.Trace = t.trace.encode()
	if t.s == nil {
		return nil
	}
	added := t.s.tr.Since(before)
	m.Messages = make([]json.RawMessage, len(added))
	for i, msg := range added {
		raw, err := json.Marshal(msg)
		if err != nil {
			return fmt.Errorf("message %d: %w", before+i, err)
		}
		m.Messages[i] = raw
	}
	m.Open = t.s.open
	m.Session = t.s.rec
	m.Session.Messages = t.s.tr.Len()
	m.Session.Turns++
	m.Session.Updated = time.Now().UTC()
	m.Session.Usage = t.usage()
	return nil
}

// usage is the session's sum with this turn's calls.
func (t *turn) usage() json.RawMessage {
	var sum llm.Usage
	if len(t.s.rec.Usage) > 0 {
		if err := json.Unmarshal(t.s.rec.Usage, &sum); err != nil {
			t.log.Warn("usage", zap.Error(err))
		}
	}
	raw, err := json.Marshal(sum.Add(t.spent))
	if err != nil {
		return t.s.rec.Usage
	}
	return raw
}

// stale leaves everything to whoever has the claim now.
func (t *turn) stale(err error) { t.log.Warn("the turn is somebody else's now", zap.Error(err)) }
