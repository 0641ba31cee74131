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

// A damagedRow is the error for a queue head that cannot be read.
type damagedRow struct {
	id  outbox.ID
	err error
}

func (e *damagedRow) Error() string { return e.err.Error() }
func (e *damagedRow) Unwrap() error { return e.err }

var (
	errNoRow   = errors.New("no such row")
	errRowSent = errors.New("row is already sent")
)

func (r reader) row(id outbox.ID) (row outbox.Row, ok bool, err error) {
	ok, err = r.load(bRows, idKey(uint64(id)), &row)
	return row, ok, err
}

// existingRow returns a row, or errNoRow.
func (r reader) existingRow(id outbox.ID) (outbox.Row, error) {
	row, ok, err := r.row(id)
	if err == nil && !ok {
		err = errNoRow
	}
	return row, err
}

// isHeldForOperator reports whether a row waits for a decision of the operator.
// Later rows pass it.
func isHeldForOperator(r outbox.Row) bool {
	return r.State == outbox.Uncertain && r.NextAttempt.IsZero()
}

// headOf returns the head of a queue. The error is a *damagedRow if the head
// cannot be read.
func (r reader) headOf(a chat.Address) (queueHead, error) {
	var h queueHead
	for k, v := range r.scan(bQueues, queuePrefix(a)) {
		id := outbox.ID(keyID(k))
		if h.oldestID == 0 {
			h.oldestID = uint64(id)
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

// readableHead is headOf after damaged rows have been ended.
func (b *batch) readableHead(a chat.Address) (queueHead, error) {
	for {
		h, err := b.headOf(a)
		var d *damagedRow
		if !errors.As(err, &d) {
			return h, err
		}
		if err := b.endDamagedRow(a, d.id, d.err); err != nil {
			return queueHead{}, err
		}
	}
}

// endDamagedRow ends a row that cannot be read.
func (b *batch) endDamagedRow(a chat.Address, id outbox.ID, reason error) error {
	if err := b.saveDamaged(bRows, idKey(uint64(id)), reason); err != nil {
		return err
	}
	stub := outbox.Row{ID: id, Role: outbox.Notice, Msg: chat.Outbound{To: a}, State: outbox.Queued, Created: b.now}
	dead := stub
	dead.State, dead.Settled, dead.Reason = outbox.Dead, b.now, "the stored row is damaged"
	return b.putRow(&stub, dead)
}

// putRow stores r, whose previous version is old (nil: r is new), and its
// position in its queue.
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
		flag := []byte{'l'}
		if isHeldForOperator(r) {
			flag[0] = 'h'
		}
		if err := b.put(bQueues, queueKey(r.Msg.To, uint64(r.ID)), flag); err != nil {
			return err
		}
	}
	b.liveRows += boolToInt(!r.Terminal()) - boolToInt(wasLive)
	return b.updateDead(r, wasDead)
}

// updateDead updates the list of dead letters and the count after r was stored.
func (b *batch) updateDead(r outbox.Row, wasDead bool) error {
	isDead := r.DeadLetter()
	b.deadRows += boolToInt(isDead) - boolToInt(wasDead)
	switch {
	case isDead && !wasDead:
		if err := b.failUndelivered(r); err != nil {
			return err
		}
		return b.put(bDead, idKey(uint64(r.ID)), nil)
	case wasDead && !isDead:
		return b.delete(bDead, idKey(uint64(r.ID)))
	}
	return nil
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// isInFlight reports whether a caller has an unsettled attempt at a row. The
// row may have been dropped and retried since.
func (b *batch) isInFlight(id outbox.ID) bool {
	if on, ok := b.inFlight[id]; ok {
		return on
	}
	b.s.mirror.mu.RLock()
	defer b.s.mirror.mu.RUnlock()
	return b.s.mirror.inFlight[id]
}

// isSendable reports whether an attempt at r may be registered.
func (b *batch) isSendable(r outbox.Row) bool {
	return !b.isInFlight(r.ID) && (r.State == outbox.Queued || r.State == outbox.NotSent) && r.TimeUntilDue(b.now) == 0
}

// registerAttempt registers an attempt at r.
func (b *batch) registerAttempt(r outbox.Row) (outbox.Row, error) {
	old := r
	r = r.Attempt(b.now, b.s.epoch)
	return r, b.putRow(&old, r)
}

// attemptHead registers an attempt at the head of a queue if it is due.
func (b *batch) attemptHead(a chat.Address) error {
	h, err := b.readableHead(a)
	if err != nil || h.row.ID == 0 || !b.isSendable(h.row) {
		return err
	}
	_, err = b.registerAttempt(h.row)
	return err
}

// enqueue adds rows and registers an attempt at those that are first in their
// queue. Rows without a turn are rows of t, unless it is nil; the caller saves t.
func (b *batch) enqueue(rows []outbox.Row, t *turnRecord) ([]outbox.Row, error) {
	added := make([]outbox.Row, 0, len(rows))
	for _, r := range rows {
		id, err := b.nextID(bRows)
		if err != nil {
			return nil, err
		}
		r.ID = outbox.ID(id)
		if r.Turn == "" && t != nil {
			r.Turn = t.ID
		}
		r.State, r.Attempts, r.Epoch, r.Receipt, r.Settled = outbox.Queued, 0, 0, nil, time.Time{}
		if r.Created.IsZero() {
			r.Created = b.now
		}
		before, err := b.readableHead(r.Msg.To)
		if err != nil {
			return nil, err
		}
		if before.row.ID == 0 && b.isSendable(r) {
			r = r.Attempt(b.now, b.s.epoch)
		}
		if err := b.putRow(nil, r); err != nil {
			return nil, err
		}
		if t != nil && r.Turn == t.ID {
			t.addRow(r)
		} else if err := b.addToTurn(r); err != nil {
			return nil, err
		}
		added = append(added, r)
	}
	return added, nil
}

// addToTurn adds r to its turn.
func (b *batch) addToTurn(r outbox.Row) error {
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
	t.addRow(r)
	return b.saveTurn(t)
}

// addRow adds r to the rows and the previews of t.
func (t *turnRecord) addRow(r outbox.Row) {
	t.Rows = append(t.Rows, r.ID)
	isDeleted := func(id outbox.ID) bool { return id == r.Delete || id == r.Replaces }
	t.Previews = slices.DeleteFunc(t.Previews, isDeleted)
	if r.Role == outbox.Preview && r.Delete == 0 {
		t.Previews = append(t.Previews, r.ID)
	}
}

// addresses returns the addresses of the queues that are not empty.
func (r reader) addresses() []chat.Address {
	var addresses []chat.Address
	for k := range r.scan(bQueues, nil) {
		a, _, err := parseQueueKey(k)
		if err != nil {
			continue // Verify reports it
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

// expireQueue checks all rows of a queue: after chats were joined, more than
// one may have had an attempt in progress.
func (b *batch) expireQueue(a chat.Address) error {
	for _, id := range b.queuedIDs(a) {
		r, ok, err := b.row(id)
		if isDamage(err) || err == nil && !ok {
			continue // ended when it becomes the head
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

// queuedIDs returns the IDs of the rows of a queue, in order.
func (r reader) queuedIDs(a chat.Address) []outbox.ID {
	var ids []outbox.ID
	for k := range r.scan(bQueues, queuePrefix(a)) {
		ids = append(ids, outbox.ID(keyID(k)))
	}
	return ids
}
