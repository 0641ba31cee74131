package storagetest

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// queue returns the rows of an address that are neither terminal nor held, in
// order.
func (m *model) queue(a chat.Address) []*modelRow {
	var list []*modelRow
	for _, r := range m.rows {
		if r.to == a && r.state != outbox.Sent && r.state != outbox.Dead && !r.isHeld {
			list = append(list, r)
		}
	}
	return list
}

func (m *model) enqueue(t *rapid.T) {
	var to []chat.Address
	var rows []outbox.Row
	for range rapid.IntRange(1, 3).Draw(t, "rows") {
		to = append(to, drawAddress(t))
		rows = append(rows, newRow(to[len(to)-1], ""))
	}
	added, err := m.s.Enqueue(context.Background(), rows)
	m.ok(err)
	m.addRows(added, to)
}

// addRows adds new rows to the model and checks them.
func (m *model) addRows(rows []outbox.Row, to []chat.Address) {
	m.checkEqual("rows added", len(rows), len(to))
	for i, a := range to {
		r := &modelRow{id: outbox.ID(len(m.rows) + 1), to: a, state: outbox.Queued}
		if len(m.queue(a)) == 0 {
			r.state, r.attempts = outbox.Attempting, 1
		}
		m.rows = append(m.rows, r)
		m.checkEqual("id", rows[i].ID, r.id)
		m.checkEqual("state", rows[i].State, r.state)
	}
}

func (m *model) next(t *rapid.T) { m.takeNext(drawAddress(t)) }

// takeNext takes the next row of a queue and checks it.
func (m *model) takeNext(a chat.Address) *modelRow {
	got, _, ok, err := m.s.Next(context.Background(), a)
	m.ok(err)
	queue := m.queue(a)
	if len(queue) == 0 || queue[0].inFlight {
		m.checkEqual("something is to be done", ok, false)
		return nil
	}
	r := queue[0]
	m.checkEqual("something is to be done", ok, true)
	m.checkEqual("row", got.ID, r.id)
	if r.state == outbox.Queued || r.state == outbox.NotSent {
		r.state = outbox.Attempting
		r.attempts++
	}
	r.inFlight = r.state == outbox.Attempting
	m.checkEqual("state", got.State, r.state)
	m.checkEqual("attempts", got.Attempts, r.attempts)
	return r
}

func (m *model) settle(t *rapid.T) {
	r := pick(t, slices.DeleteFunc(slices.Clone(m.rows), func(r *modelRow) bool { return !r.inFlight && r.state != outbox.Uncertain }), "row")
	s := rapid.SampledFrom([]outbox.State{outbox.Sent, outbox.NotSent, outbox.Uncertain, outbox.Dead}).Draw(t, "state")
	hold := s == outbox.Uncertain && rapid.Bool().Draw(t, "hold")
	m.settleRow(r, s, hold)
}

func (m *model) settleRow(r *modelRow, s outbox.State, hold bool) {
	t := outbox.Settlement{ID: r.id, State: s}
	if s == outbox.Sent {
		t = sentSettlement(r.id)
	}
	if s == outbox.Uncertain && !hold {
		t.NextAttempt = time.Now()
	}
	m.ok(m.s.Settle(context.Background(), t))
	r.inFlight = false
	if r.state == outbox.Dead && s != outbox.Sent {
		return
	}
	r.state, r.isHeld = s, hold
	if queue := m.queue(r.to); len(queue) > 0 && !queue[0].inFlight && (queue[0].state == outbox.Queued || queue[0].state == outbox.NotSent) {
		queue[0].state = outbox.Attempting
		queue[0].attempts++
	}
}

func (m *model) retry(t *rapid.T) {
	r := pick(t, m.rows, "row")
	err := m.s.RetryRow(context.Background(), r.id)
	if r.state == outbox.Sent || r.state == outbox.Attempting {
		m.checkEqual("a row that is sent or being sent was retried", err == nil, false)
		return
	}
	m.ok(err)
	r.state, r.isHeld = outbox.NotSent, false
}

func (m *model) drop(t *rapid.T) {
	r := pick(t, m.rows, "row")
	err := m.s.DropRow(context.Background(), r.id, "dropped")
	if r.state == outbox.Sent {
		m.checkEqual("a sent row was dropped", err == nil, false)
		return
	}
	m.ok(err)
	r.state, r.isHeld = outbox.Dead, false
}

func (m *model) crashRows() {
	for _, r := range m.rows {
		if r.state == outbox.Attempting {
			r.state = outbox.Uncertain
		}
		r.inFlight = false
	}
}

func (m *model) checkRows() {
	live, dead := 0, 0
	for _, r := range m.rows {
		dead += boolToInt(r.state == outbox.Dead)
		live += boolToInt(r.state != outbox.Dead && r.state != outbox.Sent)
	}
	st := m.s.Stats()
	m.checkEqual("rows that are not ended", st.Outbox, live)
	m.checkEqual("dead rows", st.Dead, dead)
}

// drainRows sends everything and checks the order in each queue.
func (m *model) drainRows() {
	for _, r := range m.rows {
		if r.isHeld {
			m.ok(m.s.RetryRow(context.Background(), r.id))
			r.state, r.isHeld = outbox.NotSent, false
		}
	}
	for _, a := range []chat.Address{testDM, testThread} {
		for len(m.queue(a)) > 0 {
			m.settleRow(m.takeNext(a), outbox.Sent, false)
		}
	}
	for _, r := range m.rows {
		got, err := m.s.Row(context.Background(), r.id)
		m.ok(err)
		m.checkEqual("state of "+r.id.String(), got.State, r.state)
		m.checkEqual("attempts at "+r.id.String(), got.Attempts, r.attempts)
	}
}
