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

// Enqueue adds rows in order and returns them with their IDs.
func (s *Store) Enqueue(ctx context.Context, rows []outbox.Row) ([]outbox.Row, error) {
	return write(ctx, s, "enqueue", rowsSize(rows), func(b *batch) ([]outbox.Row, error) { return b.enqueue(rows, nil) })
}

// rowsSize returns the approximate number of bytes that rows take.
func rowsSize(rows []outbox.Row) (size int) {
	for _, r := range rows {
		size += len(r.Msg.Text.Text) + 1024
	}
	return size
}

// Next returns the row at the head of the queue of an address, with a
// registered attempt; each attempt is returned to one caller only. If there is
// none now, wait is the time until the head is due, or 0. An uncertain head is
// returned as it is, once it is due, without a new attempt: the caller finds out
// or decides, and settles it.
func (s *Store) Next(ctx context.Context, to chat.Address) (r outbox.Row, wait time.Duration, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return r, 0, false, fmt.Errorf("next row of %s: %w", to, context.Cause(ctx))
	}
	for range 3 { // another caller or a chat migration may interfere
		var needsAttempt bool
		r, wait, ok, needsAttempt = s.mirror.takeHead(to, time.Now())
		if !needsAttempt {
			return r, wait, ok, nil
		}
		r, ok, err = s.registerHead(ctx, to)
		if ok || err != nil {
			return r, 0, ok, err
		}
	}
	return outbox.Row{}, 0, false, nil
}

// registerHead registers an attempt at the head of a queue and returns the row.
func (s *Store) registerHead(ctx context.Context, to chat.Address) (r outbox.Row, ok bool, err error) {
	err = s.do(ctx, "next row of "+to.String(), 1024, func(b *batch) error {
		ok = false
		h, err := b.readableHead(to)
		if err != nil || h.row.ID == 0 || !b.isSendable(h.row) {
			return err
		}
		if r, err = b.registerAttempt(h.row); err != nil {
			return err
		}
		b.inFlight[r.ID], ok = true, true
		return nil
	})
	return r, ok && err == nil, err
}

// Settle records the result of an attempt. A terminal row does not change, with
// one exception: a receipt turns a dead row into a sent one, because the
// platform has the message.
func (s *Store) Settle(ctx context.Context, t outbox.Settlement) error {
	return s.do(ctx, "settle "+t.ID.String(), 1024+rowsSize(t.Notices), func(b *batch) error { return b.settle(t) })
}

func (b *batch) settle(t outbox.Settlement) error {
	switch t.State {
	case outbox.Sent, outbox.NotSent, outbox.Uncertain, outbox.Dead:
	default:
		return fmt.Errorf("invalid settlement state %q", t.State)
	}
	old, err := b.existingRow(t.ID)
	if err != nil {
		return err
	}
	r := old
	r.State, r.NextAttempt, r.Reason, r.MayBeRepeat, r.Settled = t.State, t.NextAttempt, t.Reason, t.MayBeRepeat, time.Time{}
	if t.Receipt != nil {
		r.Receipt = t.Receipt
	}
	if r.Terminal() {
		r.Settled, r.NextAttempt = b.now, time.Time{}
	}
	b.inFlight[r.ID] = false
	if _, err := b.enqueue(t.Notices, nil); err != nil {
		return err
	}
	if old.Terminal() && (old.State == outbox.Sent || t.State != outbox.Sent || t.Receipt == nil) {
		return nil
	}
	if err := b.putRow(&old, r); err != nil {
		return err
	}
	to := old.Msg.To
	if t.MigratedTo != nil && *t.MigratedTo != to {
		if err := b.migrateQueue(to, *t.MigratedTo); err != nil {
			return err
		}
		to = *t.MigratedTo
	}
	return b.attemptHead(to)
}

// migrateQueue gives all rows of a queue that are not terminal a new address.
// They keep their IDs and so their order. They quote no message, because the IDs
// of messages are those of the old chat.
func (b *batch) migrateQueue(from, to chat.Address) error {
	for _, id := range b.queuedIDs(from) {
		old, ok, err := b.row(id)
		if isDamage(err) || err == nil && !ok {
			if err := b.endDamagedRow(from, id, errors.Join(err, errNoRow)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		r := old
		r.Msg.To, r.Msg.ReplyTo = to, ""
		if err := b.putRow(&old, r); err != nil {
			return err
		}
	}
	return nil
}

// Row returns one row, or an error if it does not exist.
func (s *Store) Row(ctx context.Context, id outbox.ID) (outbox.Row, error) {
	return read(ctx, s, "read row "+id.String(), func(r reader) (outbox.Row, error) { return r.existingRow(id) })
}

// Queues returns the addresses that have rows which are not terminal, ordered
// by their oldest row.
func (s *Store) Queues(ctx context.Context) ([]chat.Address, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list queues: %w", context.Cause(ctx))
	}
	return s.mirror.addresses(), nil
}

// Outbox returns the rows that q selects, ordered by ID, and the number of older ones that
// q.Max left out. Rows that cannot be read are omitted; Verify reports them.
func (s *Store) Outbox(ctx context.Context, q outbox.Query) (rows []outbox.Row, older int, err error) {
	rows, err = read(ctx, s, "list outbox", func(r reader) (rows []outbox.Row, err error) {
		ids := r.candidates(q)
		if q.Max > 0 {
			older = max(len(ids)-q.Max, 0)
		}
		for i, id := range ids[older:] {
			if i%1000 == 0 && ctx.Err() != nil {
				return rows, context.Cause(ctx)
			}
			row, ok, err := r.row(id)
			switch {
			case isDamage(err) || err == nil && !ok:
			case err != nil:
				return rows, err
			case q.Sent || row.State != outbox.Sent:
				rows = append(rows, row)
			}
		}
		return rows, nil
	})
	return rows, older, err
}

// candidates returns the IDs of the rows that q may select.
func (r reader) candidates(q outbox.Query) []outbox.ID {
	if q.ID != 0 {
		return []outbox.ID{q.ID}
	}
	var ids []outbox.ID
	from := []string{bQueues, bDead}
	if q.Sent {
		from = []string{bRows}
	}
	for _, name := range from {
		for k := range r.scan(name, nil) {
			ids = append(ids, outbox.ID(keyID(k)))
		}
	}
	slices.Sort(ids)
	return ids
}

// RetryRow makes a row that is dead, uncertain or waiting due now. Its retry
// period starts again, and an uncertain one is sent with the notice that it may
// be a repeat.
func (s *Store) RetryRow(ctx context.Context, id outbox.ID) error {
	return s.do(ctx, "retry "+id.String(), 1024, func(b *batch) error {
		old, err := b.existingRow(id)
		r := old
		switch {
		case err != nil:
			return err
		case old.State == outbox.Sent:
			return errRowSent
		case old.RedactWhenDone && old.Terminal():
			return errors.New("text of the row is deleted: it contained a secret, or its conversation was deleted")
		case old.State == outbox.Attempting:
			return errors.New("attempt is in progress")
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

// DropRow makes a row that is not sent dead. If an attempt is in progress and
// succeeds, the row becomes sent.
func (s *Store) DropRow(ctx context.Context, id outbox.ID, reason string) error {
	return s.do(ctx, "drop "+id.String(), 1024, func(b *batch) error {
		old, err := b.existingRow(id)
		switch {
		case err != nil:
			return err
		case old.State == outbox.Sent:
			return errRowSent
		case old.State == outbox.Dead:
			return nil
		}
		r := old
		r.State, r.Reason, r.Settled, r.NextAttempt = outbox.Dead, reason, b.now, time.Time{}
		return b.putRow(&old, r)
	})
}
