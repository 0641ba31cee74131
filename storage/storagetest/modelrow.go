package storagetest

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// queue are the rows of an address that are neither ended nor held, in order.
func (m *model) queue(a chat.Address) []*modelRow {
	var list []*modelRow
	for _, r := range m.rows {
		if r.to == a && r.state != outbox.Sent && r.state != outbox.Dead && !r.held {
			list = append(list, r)
		}
	}
	return list
}

func (m *model) enqueue(t *rapid.T) {
	var to []chat.Address
	var rows []outbox.Row
	for range rapid.IntRange(1, 3).Draw(t, "rows") {
		to = append(to, addressDrawn(t))
		rows = append(rows, message(to[len(to)-1], ""))
	}
	added, err := m.s.Enqueue(context.Background(), rows)
	m.ok(err)
	m.added(added, to)
}

// added checks rows that were added for to.
func (m *model) added(rows []outbox.Row, to []chat.Address) {
	m.same("rows added", len(rows), len(to))
	for i, a := range to {
		r := &modelRow{id: outbox.ID(len(m.rows) + 1), to: a, state: outbox.Queued}
		if len(m.queue(a)) == 0 {
			r.state, r.n = outbox.Attempting, 1
		}
		m.rows = append(m.rows, r)
		m.same("id", rows[i].ID, r.id)
		m.same("state", rows[i].State, r.state)
	}
}

func (m *model) next(t *rapid.T) { m.taken(addressDrawn(t)) }

// taken takes the next row of a queue.
func (m *model) taken(a chat.Address) *modelRow {
	got, _, ok, err := m.s.Next(context.Background(), a)
	m.ok(err)
	queue := m.queue(a)
	if len(queue) == 0 || queue[0].handed {
		m.same("something is to be done", ok, false)
		return nil
	}
	r := queue[0]
	m.same("something is to be done", ok, true)
	m.same("row", got.ID, r.id)
	if r.state == outbox.Queued || r.state == outbox.NotSent {
		r.state = outbox.Attempting
		r.n++
	}
	r.handed = r.state == outbox.Attempting
	m.same("state", got.State, r.state)
	m.same("attempts", got.Attempts, r.n)
	return r
}

func (m *model) settle(t *rapid.T) {
	r := pick(t, slices.DeleteFunc(slices.Clone(m.rows), func(r *modelRow) bool { return !r.handed && r.state != outbox.Uncertain }), "row")
	s := rapid.SampledFrom([]outbox.State{outbox.Sent, outbox.NotSent, outbox.Uncertain, outbox.Dead}).Draw(t, "state")
	hold := s == outbox.Uncertain && rapid.Bool().Draw(t, "hold")
	m.settled(r, s, hold)
}

func (m *model) settled(r *modelRow, s outbox.State, hold bool) {
	t := outbox.Settlement{ID: r.id, State: s}
	if s == outbox.Sent {
		t = sent(r.id)
	}
	if s == outbox.Uncertain && !hold {
		t.NextAttempt = time.Now()
	}
	m.ok(m.s.Settle(context.Background(), t))
	r.handed = false
	if r.state == outbox.Dead && s != outbox.Sent {
		return
	}
	r.state, r.held = s, hold
	if queue := m.queue(r.to); len(queue) > 0 && !queue[0].handed && (queue[0].state == outbox.Queued || queue[0].state == outbox.NotSent) {
		queue[0].state = outbox.Attempting
		queue[0].n++
	}
}

func (m *model) retry(t *rapid.T) {
	r := pick(t, m.rows, "row")
	err := m.s.RetryRow(context.Background(), r.id)
	if r.state == outbox.Sent || r.state == outbox.Attempting {
		m.same("a row that is sent or being sent was retried", err == nil, false)
		return
	}
	m.ok(err)
	r.state, r.held = outbox.NotSent, false
}

func (m *model) drop(t *rapid.T) {
	r := pick(t, m.rows, "row")
	err := m.s.DropRow(context.Background(), r.id, "dropped")
	if r.state == outbox.Sent {
		m.same("a sent row was dropped", err == nil, false)
		return
	}
	m.ok(err)
	r.state, r.held = outbox.Dead, false
}

func (m *model) crashRows() {
	for _, r := range m.rows {
		if r.state == outbox.Attempting {
			r.state = outbox.Uncertain
		}
		r.handed = false
	}
}

func (m *model) checkRows() {
	live, dead := 0, 0
	for _, r := range m.rows {
		dead += btoi(r.state == outbox.Dead)
		live += btoi(r.state != outbox.Dead && r.state != outbox.Sent)
	}
	st := m.s.Stats()
	m.same("rows that are not ended", st.Outbox, live)
	m.same("dead rows", st.Dead, dead)
}

// drainRows sends everything, and checks the order in each queue.
func (m *model) drainRows() {
	for _, r := range m.rows {
		if r.held {
			m.ok(m.s.RetryRow(context.Background(), r.id))
			r.state, r.held = outbox.NotSent, false
		}
	}
	for _, a := range []chat.Address{room, other} {
		for len(m.queue(a)) > 0 {
			m.settled(m.taken(a), outbox.Sent, false)
		}
	}
	for _, r := range m.rows {
		got, err := m.s.Row(context.Background(), r.id)
		m.ok(err)
		m.same("state of "+r.id.String(), got.State, r.state)
		m.same("attempts at "+r.id.String(), got.Attempts, r.n)
	}
}
