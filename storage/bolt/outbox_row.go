package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// A damagedRow says that the row at the head of a queue cannot be read.
type damagedRow struct {
	id  outbox.ID
	err error
}

func (e *damagedRow) Error() string { return e.err.Error() }
func (e *damagedRow) Unwrap() error { return e.err }

var errNoRow = errors.New("there is no such row")

func (r reader) row(id outbox.ID) (row outbox.Row, ok bool, err error) {
	ok, err = r.load(bRows, idKey(uint64(id)), &row)
	return row, ok, err
}

// operatorHeld reports whether a row is the operator's, and later ones pass it.
func operatorHeld(r outbox.Row) bool { return r.State == outbox.Uncertain && r.NextAttempt.IsZero() }

// headOf returns the head of a queue. The error is a *damagedRow if it cannot
// be read.
func (r reader) headOf(a chat.Address) (head, error) {
	var h head
	prefix := queuePrefix(a)
	c := r.bucket(bQueues).Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		id := outbox.ID(keyID(k))
		if h.first == 0 {
			h.first = uint64(id)
		}
		if content, err := checkChecksum(bQueues, k, v); err == nil && bytes.Equal(content, []byte{'h'}) {
			continue
		}
		row, ok, err := r.row(id)
		if err == nil && !ok {
			err = fmt.Errorf("row %s is missing", id)
		}
		if err != nil {
			return h, &damagedRow{id, err}
		}
		h.row = row
		return h, nil
	}
	return h, nil
}

// head is headOf, after damaged rows have been set aside.
func (b *batch) head(a chat.Address) (head, error) {
	for {
		h, err := b.headOf(a)
		var d *damagedRow
		if !errors.As(err, &d) {
			return h, err
		}
		if err := b.markUnreadable(a, d.id, d.err); err != nil {
			return head{}, err
		}
	}
}

// markUnreadable ends a row that cannot be read.
func (b *batch) markUnreadable(a chat.Address, id outbox.ID, why error) error {
	if err := b.setAside(bRows, idKey(uint64(id)), why); err != nil {
		return err
	}
	stub := outbox.Row{ID: id, Role: outbox.Notice, Msg: chat.Outbound{To: a}, State: outbox.Queued, Created: b.now}
	dead := stub
	dead.State, dead.Settled, dead.Reason = outbox.Dead, b.now, "the stored row is damaged"
	return b.putRow(&stub, dead)
}

// putRow stores r, which was old (nil: it is new), and its place in its queue.
func (b *batch) putRow(old *outbox.Row, r outbox.Row) error {
	if r.RedactWhenDone && r.Terminal() {
		r = r.Redacted()
	}
	if old == nil || !r.NextAttempt.Equal(old.NextAttempt) {
		r.Delay = outbox.DelayUntil(r.NextAttempt, b.now)
	}
	if err := b.save(bRows, idKey(uint64(r.ID)), r); err != nil {
		return err
	}
	wasLive := old != nil && !old.Terminal()
	wasDead := old != nil && old.DeadLetter()
	if wasLive {
		b.queues[old.Msg.To] = true
		if r.Terminal() || old.Msg.To != r.Msg.To {
			if err := b.delete(bQueues, queueKey(old.Msg.To, uint64(r.ID))); err != nil {
				return err
			}
		}
	}
	if !r.Terminal() {
		b.queues[r.Msg.To] = true
		mark := []byte{'l'}
		if operatorHeld(r) {
			mark[0] = 'h'
		}
		if err := b.put(bQueues, queueKey(r.Msg.To, uint64(r.ID)), mark); err != nil {
			return err
		}
	}
	b.live += number(!r.Terminal()) - number(wasLive)
	return b.countDead(r, wasDead)
}

func (b *batch) countDead(r outbox.Row, was bool) error {
	is := r.DeadLetter()
	b.dead += number(is) - number(was)
	switch {
	case is && !was:
		if err := b.undelivered(r); err != nil {
			return err
		}
		return b.put(bDead, idKey(uint64(r.ID)), nil)
	case was && !is:
		return b.delete(bDead, idKey(uint64(r.ID)))
	}
	return nil
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// inFlight reports whether somebody has an attempt at a row that is not settled,
// which may be of a row that was dropped and retried meanwhile.
func (b *batch) inFlight(id outbox.ID) bool {
	if on, ok := b.handed[id]; ok {
		return on
	}
	b.s.mirror.mu.RLock()
	defer b.s.mirror.mu.RUnlock()
	return b.s.mirror.handed[id]
}

// sendable reports whether an attempt at r may be registered.
func (b *batch) sendable(r outbox.Row) bool {
	return !b.inFlight(r.ID) && (r.State == outbox.Queued || r.State == outbox.NotSent) && r.TimeUntilDue(b.now) == 0
}

// attempt registers an attempt at r.
func (b *batch) attempt(r outbox.Row) (outbox.Row, error) {
	old := r
	r = r.Attempt(b.now, b.s.epoch)
	return r, b.putRow(&old, r)
}

// advance registers an attempt at the head of a queue, if it is due.
func (b *batch) advance(a chat.Address) error {
	h, err := b.head(a)
	if err != nil || h.row.ID == 0 || !b.sendable(h.row) {
		return err
	}
	_, err = b.attempt(h.row)
	return err
}

// enqueue adds rows, and registers the attempt at those that come first in
// their queue.
func (b *batch) enqueue(rows []outbox.Row, turn string) ([]outbox.Row, error) {
	added := make([]outbox.Row, 0, len(rows))
	for _, r := range rows {
		id, err := b.next(bRows)
		if err != nil {
			return nil, err
		}
		r.ID = outbox.ID(id)
		if r.Turn == "" {
			r.Turn = turn
		}
		r.State, r.Attempts, r.Epoch, r.Receipt, r.Settled = outbox.Queued, 0, 0, nil, time.Time{}
		if r.Created.IsZero() {
			r.Created = b.now
		}
		before, err := b.head(r.Msg.To)
		if err != nil {
			return nil, err
		}
		if err := b.putRow(nil, r); err != nil {
			return nil, err
		}
		if before.row.ID == 0 && b.sendable(r) {
			if r, err = b.attempt(r); err != nil {
				return nil, err
			}
		}
		if err := b.belong(r); err != nil {
			return nil, err
		}
		added = append(added, r)
	}
	return added, nil
}

// belong keeps with a turn which rows are its own, and which previews it has.
func (b *batch) belong(r outbox.Row) error {
	if r.Turn == "" {
		return nil
	}
	t, ok, err := b.turn(r.Turn)
	if isDamage(err) || err == nil && !ok {
		return nil
	}
	if err != nil {
		return err
	}
	t.Rows = append(t.Rows, r.ID)
	gone := func(id outbox.ID) bool { return id == r.Delete || id == r.Replaces }
	t.Previews = slices.DeleteFunc(t.Previews, gone)
	if r.Role == outbox.Preview && r.Delete == 0 {
		t.Previews = append(t.Previews, r.ID)
	}
	return b.saveTurn(t)
}

// addresses returns the queues that are not empty.
func (r reader) addresses() []chat.Address {
	var addresses []chat.Address
	c := r.bucket(bQueues).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		a, _, err := queueOf(k)
		if err != nil {
			continue // Verify names it
		}
		if n := len(addresses); n == 0 || addresses[n-1] != a {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// expireAttempts makes rows uncertain whose process died while it sent them.
func (b *batch) expireAttempts() error {
	for _, a := range b.addresses() {
		if err := b.expireQueue(a); err != nil {
			return err
		}
	}
	return nil
}

// expireQueue looks at all rows of a queue: after chats were joined there may be
// more than one that was being sent.
func (b *batch) expireQueue(a chat.Address) error {
	ids := b.queued(a)
	for _, id := range ids {
		r, ok, err := b.row(id)
		if isDamage(err) || err == nil && !ok {
			continue // set aside when it is the head
		}
		if err != nil {
			return err
		}
		if r.State != outbox.Attempting {
			continue
		}
		old := r
		r.State, r.NextAttempt, r.Reason = outbox.Uncertain, b.now, outbox.ErrProcessDied.Error()
		if err := b.putRow(&old, r); err != nil {
			return err
		}
	}
	return nil
}

// queued returns the rows of a queue, in order.
func (r reader) queued(a chat.Address) []outbox.ID {
	var ids []outbox.ID
	prefix := queuePrefix(a)
	c := r.bucket(bQueues).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		ids = append(ids, outbox.ID(keyID(k)))
	}
	return ids
}
