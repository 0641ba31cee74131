package bolt

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// A head is what stands at the front of a queue, not counting rows that are
// held for the operator.
type head struct {
	row   outbox.Row // ID 0: nothing but held rows
	first uint64     // id of the oldest row; 0: the queue is empty
}

// A mirror is what the store remembers of what is not done. It shows the last
// commit.
type mirror struct {
	mu sync.RWMutex // guards what follows

	waiting map[inbox.Lane]int
	total   int // sum of waiting
	claimed int
	queues  map[chat.Address]head // those that are not empty
	live    int
	dead    int
	fresh   uint64
	// handed are the rows whose registered attempt somebody has.
	handed map[outbox.ID]bool
}

func newMirror() *mirror {
	return &mirror{waiting: make(map[inbox.Lane]int), queues: make(map[chat.Address]head), handed: make(map[outbox.ID]bool)}
}

// apply learns what a batch has committed.
func (m *mirror) apply(b *batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l, n := range b.waiting {
		m.addWaiting(l, n)
	}
	m.claimed += b.claimed
	m.live += b.live
	m.dead += b.dead
	m.fresh += uint64(b.fresh)
	for a, h := range b.heads {
		m.setHead(a, h)
	}
	for id, on := range b.handed {
		if on {
			m.handed[id] = true
		} else {
			delete(m.handed, id)
		}
	}
}

func (m *mirror) addWaiting(l inbox.Lane, n int) {
	m.total += n
	if left := m.waiting[l] + n; left > 0 {
		m.waiting[l] = left
	} else {
		delete(m.waiting, l)
	}
}

func (m *mirror) setHead(a chat.Address, h head) {
	if h.first == 0 {
		delete(m.queues, a)
		return
	}
	m.queues[a] = h
}

// take looks at the head of a queue for Next. If an attempt is registered for
// it, take hands it out. register says that the head is due and needs one.
func (m *mirror) take(to chat.Address, now time.Time) (r outbox.Row, wait time.Duration, ok, register bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r = m.queues[to].row
	switch {
	case r.ID == 0:
		return outbox.Row{}, 0, false, false
	case m.handed[r.ID]:
		return outbox.Row{}, 0, false, false
	case r.State == outbox.Attempting:
		m.handed[r.ID] = true
		return r, 0, true, false
	case r.TimeUntilDue(now) > 0:
		return outbox.Row{}, r.TimeUntilDue(now), false, false
	case r.State == outbox.Uncertain:
		return r, 0, true, false
	}
	return outbox.Row{}, 0, false, true
}

// load replaces everything but the figures of the process by what r shows.
func (m *mirror) load(r reader) error {
	n := newMirror()
	if err := n.loadLanes(r); err != nil {
		return err
	}
	if err := n.loadQueues(r); err != nil {
		return err
	}
	c := r.bucket(bDead).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n.dead++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting, m.total, m.claimed = n.waiting, n.total, n.claimed
	m.queues, m.live, m.dead = n.queues, n.live, n.dead
	return nil
}

func (m *mirror) loadLanes(r reader) error {
	c := r.bucket(bLanes).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		l, _, err := laneOf(k)
		if err != nil {
			continue // Verify names it
		}
		if p, err := placeOf(k, v); err == nil && p.claimed {
			m.claimed++
			continue
		}
		m.addWaiting(l, 1)
	}
	return nil
}

func (m *mirror) loadQueues(r reader) error {
	c := r.bucket(bQueues).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		m.live++
	}
	for _, a := range r.addresses() {
		h, err := r.headOf(a)
		var d *damagedRow
		if errors.As(err, &d) {
			// The first write to the queue sets the row aside.
			h = head{first: uint64(d.id), row: outbox.Row{ID: d.id, State: outbox.Queued}}
		} else if err != nil {
			return err
		}
		m.queues[a] = h
	}
	return nil
}

// addresses returns the queues, the one with the oldest row first.
func (m *mirror) addresses() []chat.Address {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]chat.Address, 0, len(m.queues))
	for a := range m.queues {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b chat.Address) int {
		return cmp.Compare(m.queues[a].first, m.queues[b].first)
	})
	return list
}
