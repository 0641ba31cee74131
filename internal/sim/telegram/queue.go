package telegram

import (
	"math/rand/v2"
	"sort"
	"time"
)

const (
	updateLife  = 24 * time.Hour
	quietWeek   = 7 * 24 * time.Hour
	aheadLimit  = 10        // an offset that is farther above the next ID is invalid
	behindLimit = 2_000_000 // an offset that is farther below the next ID is invalid
	firstUpdate = 2_000_001
	lastUpdate  = 1_000_000_000
)

// An item is a pending update.
type item struct {
	id      int
	kind    string
	body    []byte // the JSON of the update without its ID, or the whole JSON if raw
	raw     bool
	lane    int64 // a webhook delivers the updates of one lane one after another
	expires time.Time
	gone    bool // a webhook confirmed it out of order
	offer   *Offer
}

// A queue holds the pending updates of one bot in the order of their IDs. The
// mutex of the server guards it. The cost of every operation is proportional to
// the number of updates that it returns or drops.
type queue struct {
	rng   *rand.Rand
	items []*item
	next  int // ID of the next update; 0: not chosen yet
	last  time.Time
	live  int // number of items that are not gone
}

// push assigns the next ID to it and appends it.
func (q *queue) push(it *item, now time.Time) {
	if q.next == 0 || q.live == 0 && !q.last.IsZero() && now.Sub(q.last) >= quietWeek {
		q.next = firstUpdate + q.rng.IntN(lastUpdate-firstUpdate)
		q.items = nil
	}
	it.id = q.next
	it.expires = now.Add(updateLife)
	q.next++
	q.last = now
	q.items = append(q.items, it)
	q.live++
}

// head returns the ID of the first pending update, or the next ID if there is
// none.
func (q *queue) head() int {
	for len(q.items) > 0 && q.items[0].gone {
		q.items = q.items[1:]
	}
	if len(q.items) == 0 {
		return q.next
	}
	return q.items[0].id
}

// forgetBefore removes all updates with an ID below id.
func (q *queue) forgetBefore(id int) []*item {
	n := sort.Search(len(q.items), func(i int) bool { return q.items[i].id >= id })
	return q.cut(n)
}

// cut removes the first n items.
func (q *queue) cut(n int) []*item {
	var out []*item
	for _, it := range q.items[:n] {
		if !it.gone {
			it.gone = true
			q.live--
			out = append(out, it)
		}
	}
	clear(q.items[:n])
	q.items = q.items[n:]
	return out
}

// expire removes expired items.
func (q *queue) expire(now time.Time) []*item {
	n := 0
	for n < len(q.items) && q.items[n].expires.Before(now) {
		n++
	}
	return q.cut(n)
}

// keepLast removes all but the last n updates, as a negative offset does.
func (q *queue) keepLast(n int) []*item {
	q.head()
	cut := len(q.items)
	for cut > 0 && n > 0 {
		if cut--; !q.items[cut].gone {
			n--
		}
	}
	return q.cut(cut)
}

// read implements getUpdates: it returns up to limit updates from offset on,
// and the updates that the offset confirms.
func (q *queue) read(offset, limit int) (got, confirmed []*item) {
	if offset <= 0 || offset > q.next+aheadLimit || offset < q.next-behindLimit {
		offset = q.head()
	}
	confirmed = q.forgetBefore(offset)
	for _, it := range q.items {
		if len(got) == limit {
			break
		}
		if !it.gone {
			got = append(got, it)
		}
	}
	return got, confirmed
}

// drop removes one update after a webhook accepted it.
func (q *queue) drop(it *item) bool {
	if it.gone {
		return false
	}
	it.gone = true
	q.live--
	q.head()
	return true
}

// pending returns the pending items in order.
func (q *queue) pending() []*item {
	out := make([]*item, 0, q.live)
	for _, it := range q.items {
		if !it.gone {
			out = append(out, it)
		}
	}
	return out
}
