package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
)

// storeRetryDelay is the time until a queue is tried again after a store failure.
const storeRetryDelay = time.Second

// sendDue sends the due rows of the queue of one address, in order.
func (d *Delivery) sendDue(_ context.Context, to chat.Address) {
	// A stop does not cancel running requests, because it would be unknown whether
	// they arrived. sendTimeout limits them.
	ctx := context.Background()
	for !d.stopping() {
		row, wait, ok, err := d.opts.Store.Next(ctx, to)
		switch {
		case err != nil:
			d.opts.Log.Error("cannot read outbox", zap.Stringer("to", to), zap.Error(err))
			d.wakeAfter(to, storeRetryDelay)
			return
		case !ok:
			if wait > 0 {
				d.wakeAfter(to, wait)
			}
			return
		}
		start := time.Now()
		s := d.attempt(ctx, row)
		took := time.Since(start)
		if err := d.storeSettlement(ctx, s); err != nil {
			return
		}
		d.logSettlement(row, s)
		d.opts.Observe(observe.DeliveryAttempted{
			Turn: row.Turn, Row: row.ID.String(), Platform: row.Msg.To.Platform, Role: string(row.Role), State: string(s.State), RateLimited: s.Reason == rateLimitReason, Attempt: row.Attempts, Took: took,
		})
		d.opts.Settled(row, s)
		if s.MigratedTo != nil { // its rows are in another queue now
			d.lanes.Wake(*s.MigratedTo)
		}
	}
}

// rateLimitReason is the reason of a row that was not attempted because of a rate
// limit.
const rateLimitReason = "rate limit"

func (d *Delivery) stopping() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// storeSettlement stores s and retries until it succeeds or the delivery stops: a
// receipt that is not stored would cause a second send.
func (d *Delivery) storeSettlement(ctx context.Context, s outbox.Settlement) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := d.opts.Store.Settle(ctx, s)
		if err == nil {
			return nil
		}
		d.opts.Log.Error("cannot store settlement", zap.Stringer("row", s.ID), zap.Error(err))
		if errors.Is(err, chat.ErrOutcomeUnknown) { // the row is uncertain after the restart
			return err
		}
		select {
		case <-d.done:
			return err
		case <-time.After(wait):
		}
	}
}

// attempt makes one delivery attempt and returns its settlement. A panic in an
// adapter counts as an uncertain failure.
func (d *Delivery) attempt(ctx context.Context, row outbox.Row) (s outbox.Settlement) {
	defer func() {
		if p := recover(); p != nil {
			d.opts.Log.Error("panic in adapter while sending", zap.Stringer("row", row.ID), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			s = d.decide(row, fmt.Errorf("panic: %v", p))
		}
	}()
	a, ok := d.opts.Accounts.Adapter(row.Msg.To.AccountID())
	now := time.Now()
	switch {
	case !ok && row.State == outbox.Uncertain && !outbox.Expired(row, now): // whether it arrived can be asked later
		return outbox.Settlement{ID: row.ID, State: outbox.Uncertain, NextAttempt: now.Add(notConfiguredDelay), Reason: notConfigured(row).Reason, MayBeRepeat: row.MayBeRepeat}
	case row.State == outbox.Uncertain:
		return d.resolveUncertain(ctx, a, row)
	case !ok:
		return d.decide(row, notConfigured(row))
	}
	if wait := d.throttle.Reserve(row.Msg.To, now); wait > 0 {
		return outbox.Settlement{ID: row.ID, State: outbox.NotSent, NextAttempt: now.Add(wait), Reason: rateLimitReason, MayBeRepeat: row.MayBeRepeat}
	}
	row.MayBeRepeat = row.MayBeRepeat || !row.Placeholder && d.repeatsPreview(ctx, row)
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	switch {
	case row.Delete != 0:
		return d.deletePreviewMessage(ctx, a, row)
	case row.Replaces != 0:
		return d.replace(ctx, a, row)
	default:
		return d.send(ctx, a, row)
	}
}

// notConfiguredDelay is the time until an uncertain row is tried again whose platform is
// not configured.
const notConfiguredDelay = time.Minute

func notConfigured(row outbox.Row) *chat.SendError {
	return &chat.SendError{Outcome: chat.Transient, Reason: string(row.Msg.To.Platform) + " is not configured"}
}

// message returns the message of row as it is sent.
func (d *Delivery) message(row outbox.Row) chat.Outbound {
	m := row.Msg
	m.ID = row.ID.String()
	if row.MayBeRepeat {
		m.Text = outbox.AddRepeatNotice(m.Text, d.opts.RepeatNotice)
	}
	return m
}

// repeatsPreview reports whether a preview with the text of row, or with a part of it,
// may stay visible. The rows of previews precede row in its queue.
func (d *Delivery) repeatsPreview(ctx context.Context, row outbox.Row) bool {
	return slices.ContainsFunc(append(slices.Clone(row.Follows), row.Replaces), func(id outbox.ID) bool {
		if id == 0 {
			return false
		}
		p, err := d.opts.Store.Row(ctx, id)
		return err == nil && p.MayStayVisible()
	})
}

func (d *Delivery) send(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	m := d.message(row)
	r, err := a.Send(ctx, m)
	if err != nil {
		return d.decide(row, err)
	}
	return outbox.Delivered(row, r)
}

// replace delivers row as an edit of the preview that it replaces, or as a new
// message if there is no preview to edit.
func (d *Delivery) replace(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	p, err := d.opts.Store.Row(ctx, row.Replaces)
	ed, ok := a.(chat.Editor)
	if err != nil || !ok || p.Receipt == nil {
		return d.send(ctx, a, row)
	}
	if inOtherChat(p, row) { // the preview stays
		row.MayBeRepeat = row.MayBeRepeat || !p.Placeholder
		return d.send(ctx, a, row)
	}
	err = ed.Edit(ctx, p.Receipt.ID, d.message(row))
	switch {
	case err == nil:
		return outbox.Delivered(row, *p.Receipt)
	case errors.Is(err, chat.ErrGone), isPermanent(err):
		// A new message may be accepted. The preview may still exist although it cannot be
		// edited.
		row.MayBeRepeat = row.MayBeRepeat || !d.deleteMessage(ctx, a, row.Msg.To, p.Receipt.ID)
		s := d.send(ctx, a, row)
		s.MayBeRepeat = s.MayBeRepeat || s.State == outbox.Uncertain // it is not looked for: see resolveUncertain
		return s
	}
	return d.decide(row, asTransient(err))
}

// inOtherChat reports whether the message of the preview p is not in the chat of row,
// because the chat was migrated: its ID is that of another message there.
func inOtherChat(p, row outbox.Row) bool {
	return p.Msg.To.WithoutThread() != row.Msg.To.WithoutThread()
}

// isPermanent reports whether a platform will never accept a message or an edit.
func isPermanent(err error) bool {
	se, ok := errors.AsType[*chat.SendError](err)
	return ok && se.Outcome == chat.Permanent && se.MigratedTo == nil
}

// deleteMessage deletes a preview that cannot be edited, and reports whether it is
// gone. It is tried once.
func (d *Delivery) deleteMessage(ctx context.Context, a chat.Adapter, address chat.Address, id string) bool {
	del, ok := a.(chat.Deleter)
	if !ok {
		return false
	}
	if err := del.Delete(ctx, address, id); err != nil && !errors.Is(err, chat.ErrGone) {
		d.opts.Log.Warn("cannot delete replaced preview", zap.String("platform", string(address.Platform)), zap.Error(err))
		return false
	}
	return true
}

// deletePreviewMessage deletes the message of the preview row.Delete. Failed
// deletions are retried as outbox.Decide says, at most a few times.
func (d *Delivery) deletePreviewMessage(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	p, err := d.opts.Store.Row(ctx, row.Delete)
	del, ok := a.(chat.Deleter)
	switch {
	case err == nil && p.MayStayVisible():
		return outbox.Settlement{ID: row.ID, State: outbox.Dead, Reason: "it is unknown whether the preview arrived", MayBeRepeat: true}
	case err != nil || !ok || p.Receipt == nil:
		return outbox.Settlement{ID: row.ID, State: outbox.Sent, Reason: "there was nothing to take back"}
	case inOtherChat(p, row):
		return outbox.Settlement{ID: row.ID, State: outbox.Dead, Reason: "the preview is in the chat before its migration", MayBeRepeat: !p.Placeholder}
	}
	if err := del.Delete(ctx, row.Msg.To, p.Receipt.ID); err != nil && !errors.Is(err, chat.ErrGone) {
		return d.decide(row, asTransient(err))
	}
	return outbox.Delivered(row, *p.Receipt)
}

// asTransient turns an uncertain failure of an edit or a deletion into a transient
// one. Both can be retried, because they are idempotent.
func asTransient(err error) error {
	var se *chat.SendError
	if errors.As(err, &se) && se.Outcome != chat.Uncertain {
		return err
	}
	return &chat.SendError{Outcome: chat.Transient, Reason: "no answer to the edit", Err: err}
}

// findTimeout is how long the daemon keeps asking a platform whether it has a
// message. Later messages of the queue wait meanwhile, so after this time the
// policy Options.Uncertain decides.
const findTimeout = 15 * time.Minute

// maxFindInterval is the longest time between two such requests, unless the platform
// demands more. It grows with the time since the first attempt.
const maxFindInterval = 30 * time.Second

// canAskAgain reports whether a failed Find may succeed later. A permanent failure,
// such as a missing permission, does not go away.
func canAskAgain(err error) bool {
	se, ok := errors.AsType[*chat.SendError](err)
	return !ok || se.Outcome != chat.Permanent
}

// resolveUncertain settles a row for which it is unknown whether it arrived: it asks
// the platform if possible, and else applies the policy. a may be nil.
func (d *Delivery) resolveUncertain(ctx context.Context, a chat.Adapter, row outbox.Row) outbox.Settlement {
	if row.Delete != 0 || row.Replaces != 0 && d.canEditPreview(ctx, a, row) {
		return outbox.Settlement{ID: row.ID, State: outbox.NotSent, NextAttempt: time.Now(), Reason: row.Reason, MayBeRepeat: row.MayBeRepeat}
	}
	if f, ok := a.(chat.Finder); ok {
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		defer cancel()
		m := row.Msg
		m.ID, m.CreatedAt = row.ID.String(), row.Created
		r, found, err := f.Find(ctx, m)
		switch {
		case err == nil && found:
			return outbox.Delivered(row, r)
		case err == nil:
			return outbox.Settlement{ID: row.ID, State: outbox.NotSent, NextAttempt: time.Now(), Reason: "the platform does not have it"}
		case canAskAgain(err) && time.Since(row.Created) < findTimeout:
			wait := max(row.Backoff(), min(time.Since(row.FirstAttempt)/2, maxFindInterval))
			if se, ok := errors.AsType[*chat.SendError](err); ok {
				wait = max(wait, se.RetryAfter)
			}
			return outbox.Settlement{ID: row.ID, State: outbox.Uncertain, NextAttempt: time.Now().Add(wait), Reason: err.Error()}
		}
	}
	return outbox.ResolveUncertain(row, time.Now(), d.opts.Uncertain)
}

func (d *Delivery) canEditPreview(ctx context.Context, a chat.Adapter, row outbox.Row) bool {
	p, err := d.opts.Store.Row(ctx, row.Replaces)
	_, ok := a.(chat.Editor)
	return err == nil && ok && p.Receipt != nil && !inOtherChat(p, row)
}

// decide returns the settlement of a failed attempt, and records the rate limit that
// the platform reported. It has a notice for the chat of an answer whose content is refused,
// and of each file that is: texts may be allowed where files are not.
func (d *Delivery) decide(row outbox.Row, err error) outbox.Settlement {
	now := time.Now()
	d.recordRetryAfter(row.Msg.To, err, now)
	s := outbox.Decide(row, err, now, d.opts.Uncertain)
	if isPermanent(err) && row.Role == outbox.Reply && (isRefused(err) || row.Msg.File != nil) {
		s.Notices = d.refusalNotice(row, s.Reason)
	}
	return s
}

func isRefused(err error) bool {
	se, ok := errors.AsType[*chat.SendError](err)
	return ok && se.Refused
}

func (d *Delivery) refusalNotice(row outbox.Row, reason string) []outbox.Row {
	file := ""
	if row.Msg.File != nil {
		file = cmp.Or(row.Msg.File.Name, filepath.Base(row.Msg.File.Path))
	}
	return d.Render(d.opts.RefusalText(file, reason), Draft{To: row.Msg.To, Turn: row.Turn, Role: outbox.Notice, ReplyTo: row.Msg.ReplyTo})
}

func (d *Delivery) recordRetryAfter(to chat.Address, err error, now time.Time) {
	var se *chat.SendError
	if errors.As(err, &se) {
		d.throttle.RecordRetryAfter(to, se.RetryAfter, se.AccountWide, now)
	}
}

func (d *Delivery) logSettlement(row outbox.Row, s outbox.Settlement) {
	switch {
	case s.State == outbox.Sent:
		d.opts.Log.Debug("row sent", zap.Stringer("row", row.ID), zap.String("turn", row.Turn))
	case s.State == outbox.Dead && row.Role == outbox.Preview:
		d.opts.Log.Warn("preview given up", zap.Stringer("row", row.ID), zap.Stringer("to", row.Msg.To), zap.String("turn", row.Turn), zap.String("err", d.opts.Masker.Mask(s.Reason)))
	case s.State == outbox.Dead:
		d.opts.Log.Error("row became a dead letter", zap.Stringer("row", row.ID), zap.Stringer("to", row.Msg.To), zap.String("turn", row.Turn), zap.String("err", d.opts.Masker.Mask(s.Reason)))
	default:
		d.opts.Log.Warn("row not sent", zap.Stringer("row", row.ID), zap.Stringer("to", row.Msg.To), zap.String("state", string(s.State)), zap.Time("due", s.NextAttempt), zap.String("err", d.opts.Masker.Mask(s.Reason)))
	}
}
