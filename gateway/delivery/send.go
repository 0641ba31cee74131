package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
)

// storeRetry is how long a queue rests after the store refused a write.
const storeRetry = time.Second

// work sends what is due in the queue of one address, in order.
func (d *Delivery) work(_ context.Context, to chat.Address) {
	// Requests that are under way are never cut by a stop: whether they arrived
	// would be unknown. They end by SendTimeout.
	ctx := context.Background()
	for !d.stopping() {
		row, wait, ok, err := d.opts.Store.Next(ctx, to)
		switch {
		case err != nil:
			d.opts.Log.Error("outbox cannot be read", zap.Stringer("to", to), zap.Error(err))
			d.wakeIn(to, storeRetry)
			return
		case !ok:
			if wait > 0 {
				d.wakeIn(to, wait)
			}
			return
		}
		began := time.Now()
		s := d.settle(ctx, row)
		took := time.Since(began)
		if err := d.keep(ctx, s); err != nil {
			return
		}
		d.logSettled(row, s)
		d.opts.Observe.Emit(observe.DeliveryAttempted{
			Turn: row.Turn, Row: row.ID.String(), Platform: row.Msg.To.Platform, Role: string(row.Role), State: string(s.State), RateLimited: s.Reason == overLimit, Attempt: row.Attempts, Took: took,
		})
		if d.opts.Settled != nil {
			d.opts.Settled(row, s)
		}
		if s.MigratedTo != nil { // the rows wait in another queue now
			d.lanes.Wake(*s.MigratedTo)
		}
	}
}

// overLimit is why a row waits that was not even tried.
const overLimit = "rate limit"

func (d *Delivery) stopping() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// keep stores a settlement, for as long as it takes: a receipt that is not
// kept would be a second send.
func (d *Delivery) keep(ctx context.Context, s outbox.Settlement) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := d.opts.Store.Settle(ctx, s)
		if err == nil {
			return nil
		}
		d.opts.Log.Error("outbox cannot be written", zap.Stringer("row", s.ID), zap.Error(err))
		select {
		case <-d.done:
			return err
		case <-time.After(wait):
		}
	}
}

// settle tries a row once and says what came of it. A panic in an adapter is an
// attempt of which nothing is known.
func (d *Delivery) settle(ctx context.Context, row outbox.Row) (s outbox.Settlement) {
	defer func() {
		if p := recover(); p != nil {
			d.opts.Log.Error("panic while sending", zap.Stringer("row", row.ID), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			s = d.decide(row, fmt.Errorf("panic: %v", p))
		}
	}()
	a, ok := d.opts.Adapters[row.Msg.To.AccountID()]
	if !ok {
		return d.decide(row, &chat.SendError{Outcome: chat.Transient, Reason: string(row.Msg.To.Platform) + " is not configured"})
	}
	now := time.Now()
	if row.State == outbox.Uncertain {
		return d.resolve(ctx, a, row)
	}
	if wait := d.budget.Reserve(row.Msg.To, now); wait > 0 {
		return outbox.Settlement{ID: row.ID, State: outbox.NotSent, NextAttempt: now.Add(wait), Reason: overLimit, MayBeRepeat: row.MayBeRepeat}
	}
	ctx, cancel := context.WithTimeout(ctx, d.opts.SendTimeout)
	defer cancel()
	switch {
	case row.Delete != 0:
		return d.takeBack(ctx, a, row)
	case row.Replaces != 0:
		return d.replace(ctx, a, row)
	default:
		return d.send(ctx, a, row)
	}
}

func (d *Delivery) send(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	m := row.Msg
	m.ID = row.ID.String()
	if row.MayBeRepeat {
		m.Text = outbox.AddRepeatNotice(m.Text, d.opts.RepeatNotice)
	}
	r, err := a.Send(ctx, m)
	if err != nil {
		return d.decide(row, err)
	}
	return outbox.Delivered(row, r)
}

// replace makes the row an edit of the preview it replaces, or a message of its
// own if there is no preview to edit.
func (d *Delivery) replace(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	p, err := d.opts.Store.Row(ctx, row.Replaces)
	ed, ok := a.(chat.Editor)
	if err != nil || !ok || p.Receipt == nil {
		return d.send(ctx, a, row)
	}
	err = ed.Edit(ctx, p.Receipt.ID, row.Msg)
	switch {
	case err == nil:
		return outbox.Delivered(row, *p.Receipt)
	case errors.Is(err, chat.ErrGone):
		s := d.send(ctx, a, row)
		if s.State == outbox.Sent { // the preview may be there still: it could only not become this
			d.remove(ctx, a, row.Msg.To, p.Receipt.ID)
		}
		return s
	}
	return d.decide(row, asTransient(err))
}

// remove takes a message away whose place another one has taken. It is
// decoration, tried once.
func (d *Delivery) remove(ctx context.Context, a chat.Adapter, at chat.Address, id string) {
	del, ok := a.(chat.Deleter)
	if !ok {
		return
	}
	if err := del.Delete(ctx, at, id); err != nil && !errors.Is(err, chat.ErrGone) {
		d.opts.Log.Warn("the preview of an answer stays", zap.String("platform", string(at.Platform)), zap.Error(err))
	}
}

// takeBack deletes the message of a preview. It is decoration that ends here:
// after a refusal that is not a rate limit it is given up.
func (d *Delivery) takeBack(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	p, err := d.opts.Store.Row(ctx, row.Delete)
	del, ok := a.(chat.Deleter)
	if err != nil || !ok || p.Receipt == nil {
		return outbox.Settlement{ID: row.ID, State: outbox.Sent, Reason: "there was nothing to take back"}
	}
	if err := del.Delete(ctx, row.Msg.To, p.Receipt.ID); err != nil && !errors.Is(err, chat.ErrGone) {
		return d.decide(row, asTransient(err))
	}
	return outbox.Delivered(row, *p.Receipt)
}

// asTransient turns an uncertain outcome of an edit or a deletion into one that can
// simply be tried again: both are idempotent.
func asTransient(err error) error {
	var se *chat.SendError
	if errors.As(err, &se) && se.Outcome != chat.Uncertain {
		return err
	}
	return &chat.SendError{Outcome: chat.Transient, Reason: "no answer to the edit", Err: err}
}

// findTimeout is how long a platform is asked whether it has a message. Later
// messages wait all the while, so after it the operator's policy decides.
const findTimeout = 15 * time.Minute

// worthAskingAgain reports whether asking again may help: a platform that will never
// tell, for want of a permission, is not asked again.
func worthAskingAgain(err error) bool {
	se, ok := errors.AsType[*chat.SendError](err)
	return !ok || se.Outcome != chat.Permanent
}

// resolve clears up a row of which it is not known whether it arrived.
func (d *Delivery) resolve(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	if row.Delete != 0 || row.Replaces != 0 && d.canEdit(ctx, a, row) {
		return outbox.Settlement{ID: row.ID, State: outbox.NotSent, NextAttempt: time.Now(), Reason: row.Reason}
	}
	if f, ok := a.(chat.Finder); ok {
		ctx, cancel := context.WithTimeout(ctx, d.opts.SendTimeout)
		defer cancel()
		m := row.Msg
		m.ID = row.ID.String()
		r, found, err := f.Find(ctx, m)
		switch {
		case err == nil && found:
			return outbox.Delivered(row, r)
		case err == nil:
			return outbox.Settlement{ID: row.ID, State: outbox.NotSent, NextAttempt: time.Now(), Reason: "the platform does not have it"}
		case worthAskingAgain(err) && time.Since(row.Created) < findTimeout:
			return outbox.Settlement{ID: row.ID, State: outbox.Uncertain, NextAttempt: time.Now().Add(row.Backoff()), Reason: err.Error()}
		}
	}
	return outbox.ResolveUncertain(row, time.Now(), d.opts.Uncertain)
}

func (d *Delivery) canEdit(ctx context.Context, a chat.Adapter, row outbox.Row) bool {
	p, err := d.opts.Store.Row(ctx, row.Replaces)
	_, ok := a.(chat.Editor)
	return err == nil && ok && p.Receipt != nil
}

// decide turns a failed attempt into a settlement, and learns the platform's
// limits from it.
func (d *Delivery) decide(row outbox.Row, err error) outbox.Settlement {
	now := time.Now()
	d.learn(row.Msg.To, err, now)
	return outbox.Decide(row, err, now, d.opts.Uncertain)
}

func (d *Delivery) learn(to chat.Address, err error, now time.Time) {
	var se *chat.SendError
	if errors.As(err, &se) {
		d.budget.RecordRetryAfter(to, se.RetryAfter, se.AccountWide, now)
	}
}

func (d *Delivery) logSettled(row outbox.Row, s outbox.Settlement) {
	switch s.State {
	case outbox.Sent:
		d.opts.Log.Debug("sent", zap.Stringer("row", row.ID), zap.String("turn", row.Turn))
	case outbox.Dead:
		d.opts.Log.Error("given up", zap.Stringer("row", row.ID), zap.Stringer("to", row.Msg.To), zap.String("turn", row.Turn), zap.String("err", d.opts.Masker.Mask(s.Reason)))
	default:
		d.opts.Log.Warn("not sent", zap.Stringer("row", row.ID), zap.Stringer("to", row.Msg.To), zap.String("state", string(s.State)), zap.Time("due", s.NextAttempt), zap.String("err", d.opts.Masker.Mask(s.Reason)))
	}
}
