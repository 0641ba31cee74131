package bolt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// Enqueue adds rows, in order, and returns them with their ids.
func (s *Store) Enqueue(ctx context.Context, rows []outbox.Row) ([]outbox.Row, error) {
	size := 0
	for _, r := range rows {
		size += len(r.Msg.Text.Text) + 1024
	}
	var added []outbox.Row
	err := s.do(ctx, "enqueue", size, func(b *batch) error {
		var err error
		added, err = b.enqueue(rows, "")
		return err
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// Next returns the row at the head of an address's queue, with an attempt
// registered for it; each attempt to one caller only. A head that is uncertain
// is returned as it is, once it is due, without a new attempt: the caller finds
// out or decides, and settles it.
func (s *Store) Next(ctx context.Context, to chat.Address) (r outbox.Row, wait time.Duration, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return r, 0, false, fmt.Errorf("next of %s: %w", to, context.Cause(ctx))
	}
	for range 3 { // another caller, or a move, may come in between
		var register bool
		r, wait, ok, register = s.mirror.take(to, time.Now())
		if !register {
			return r, wait, ok, nil
		}
		r, ok, err = s.register(ctx, to)
		if ok || err != nil {
			return r, 0, ok, err
		}
	}
	return outbox.Row{}, 0, false, nil
}

// register registers an attempt at the head of a queue and hands it out.
func (s *Store) register(ctx context.Context, to chat.Address) (r outbox.Row, ok bool, err error) {
	err = s.do(ctx, "next of "+to.String(), 1024, func(b *batch) error {
		ok = false
		h, err := b.head(to)
		if err != nil || h.row.ID == 0 || !b.sendable(h.row) {
			return err
		}
		if r, err = b.attempt(h.row); err != nil {
			return err
		}
		b.handed[r.ID], ok = true, true
		return nil
	})
	return r, ok && err == nil, err
}

// Settle records what an attempt came to. A row that has ended stays as it is,
// but for a receipt: it makes a dead row a sent one, because the platform has
// the message.
func (s *Store) Settle(ctx context.Context, t outbox.Settlement) error {
	return s.do(ctx, "settle "+t.ID.String(), 1024, func(b *batch) error { return b.settle(t) })
}

func (b *batch) settle(t outbox.Settlement) error {
	switch t.State {
	case outbox.Sent, outbox.NotSent, outbox.Uncertain, outbox.Dead:
	default:
		return fmt.Errorf("a row cannot be settled as %q", t.State)
	}
	old, ok, err := b.row(t.ID)
	if err != nil {
		return err
	}
	if !ok {
		return errNoRow
	}
	r := old
	r.State, r.NextAttempt, r.Reason, r.MayBeRepeat, r.Settled = t.State, t.NextAttempt, t.Reason, t.MayBeRepeat, time.Time{}
	if t.Receipt != nil {
		r.Receipt = t.Receipt
	}
	if r.Terminal() {
		r.Settled, r.NextAttempt = b.now, time.Time{}
	}
	b.handed[r.ID] = false
	if old.Terminal() && (old.State == outbox.Sent || t.State != outbox.Sent || t.Receipt == nil) {
		return nil
	}
	if err := b.putRow(&old, r); err != nil {
		return err
	}
	to := old.Msg.To
	if t.MigratedTo != nil && *t.MigratedTo != to {
		if err := b.moveQueue(to, *t.MigratedTo); err != nil {
			return err
		}
		to = *t.MigratedTo
	}
	return b.advance(to)
}

// moveQueue gives all rows of a queue that are not terminal a new address. They
// keep their ids, and so their order.
func (b *batch) moveQueue(from, to chat.Address) error {
	for _, id := range b.queued(from) {
		old, ok, err := b.row(id)
		if isDamage(err) || err == nil && !ok {
			if err := b.markUnreadable(from, id, errors.Join(err, errNoRow)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		r := old
		r.Msg.To = to
		if err := b.putRow(&old, r); err != nil {
			return err
		}
	}
	return nil
}

// Row returns one row.
func (s *Store) Row(ctx context.Context, id outbox.ID) (outbox.Row, error) {
	var row outbox.Row
	err := s.view(ctx, "row "+id.String(), func(r reader) error {
		var ok bool
		var err error
		row, ok, err = r.row(id)
		if err == nil && !ok {
			err = errNoRow
		}
		return err
	})
	return row, err
}

// Queues returns the addresses that have rows which are not terminal, the one
// with the oldest row first.
func (s *Store) Queues(ctx context.Context) ([]chat.Address, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("queues: %w", context.Cause(ctx))
	}
	return s.mirror.addresses(), nil
}

// Outbox returns the rows that are not sent, in order; all: also the sent ones
// that are still kept. Rows that cannot be read are left out; Verify names them.
func (s *Store) Outbox(ctx context.Context, all bool) ([]outbox.Row, error) {
	var rows []outbox.Row
	err := s.view(ctx, "outbox", func(r reader) error {
		ids := r.unsent(all)
		for i, id := range ids {
			if i%1000 == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			row, ok, err := r.row(id)
			if isDamage(err) || err == nil && !ok {
				continue
			}
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, err
}

// unsent returns the ids of the rows that are not sent, or of all.
func (r reader) unsent(all bool) []outbox.ID {
	var ids []outbox.ID
	from := []string{bQueues, bDead}
	if all {
		from = []string{bRows}
	}
	for _, name := range from {
		c := r.bucket(name).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			ids = append(ids, outbox.ID(keyID(k)))
		}
	}
	slices.Sort(ids)
	return ids
}

// RetryRow makes a row that is dead, uncertain or waiting due now. Its time to
// be given up begins anew, and an uncertain one goes marked as a repeat.
func (s *Store) RetryRow(ctx context.Context, id outbox.ID) error {
	return s.do(ctx, "retry "+id.String(), 1024, func(b *batch) error {
		old, ok, err := b.row(id)
		if err != nil {
			return err
		}
		r := old
		switch {
		case !ok:
			return errNoRow
		case old.State == outbox.Sent:
			return errors.New("it is sent")
		case old.RedactWhenDone && old.Terminal():
			return errors.New("what it said is deleted: it told a secret, or its conversation was forgotten")
		case old.State == outbox.Attempting:
			return errors.New("it is being sent")
		case old.State == outbox.Uncertain:
			r.State, r.MayBeRepeat = outbox.NotSent, true
		default:
			r.State = outbox.NotSent
		}
		r.NextAttempt, r.Created, r.Settled = b.now, b.now, time.Time{}
		r.FirstAttempt, r.IdleFor = time.Time{}, 0
		return b.putRow(&old, r)
	})
}

// DropRow makes a row that is not sent dead. If it is being sent and arrives
// all the same, it becomes sent.
func (s *Store) DropRow(ctx context.Context, id outbox.ID, why string) error {
	return s.do(ctx, "drop "+id.String(), 1024, func(b *batch) error {
		old, ok, err := b.row(id)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoRow
		case old.State == outbox.Sent:
			return errors.New("it is sent")
		case old.State == outbox.Dead:
			return nil
		}
		r := old
		r.State, r.Reason, r.Settled, r.NextAttempt = outbox.Dead, why, b.now, time.Time{}
		return b.putRow(&old, r)
	})
}
