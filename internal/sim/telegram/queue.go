package telegram

import (
	"math/rand/v2"
	"sort"
	"time"
)

const (
	updateLife  = 24 * time.Hour
	quietWeek   = 7 * 24 * time.Hour
	aheadLimit  = 10        // an offset this far above the next id is nonsense
	behindLimit = 2_000_000 // and this far below it too
	firstUpdate = 2_000_001
	lastUpdate  = 1_000_000_000
)

// item is a pending update.
type item struct {
	id      int
	kind    string
	body    []byte // the JSON of the update, without its id, or whole if raw
	raw     bool
	lane    int64 // updates of one lane go to a webhook one after another
	expires time.Time
	gone    bool // confirmed out of order, by a webhook
	offer   *Offer
}

// queue holds the pending updates of one bot in the order of their ids. It is
// guarded by the server's mutex; every operation costs as much as the updates
// that it returns or forgets.
type queue struct {
	rng   *rand.Rand
	items []*item
	next  int // id of the next update; 0: not chosen yet
	last  time.Time
	live  int // items that are not gone
}

// push gives it the next id and appends it.
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

// head is the id of the first pending update, or the next one.
func (q *queue) head() int {
	for len(q.items) > 0 && q.items[0].gone {
		q.items = q.items[1:]
	}
	if len(q.items) == 0 {
		return q.next
	}
	return q.items[0].id
}

// forgetBefore takes out all updates with an id below id.
func (q *queue) forgetBefore(id int) []*item {
	n := sort.Search(len(q.items), func(i int) bool { return q.items[i].id >= id })
	return q.cut(n)
}

// cut takes out the first n items.
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

// expire takes out what is too old.
func (q *queue) expire(now time.Time) []*item {
	n := 0
	for n < len(q.items) && q.items[n].expires.Before(now) {
		n++
	}
	return q.cut(n)
}

// keepLast takes out all but the last n updates: a negative offset.
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

// read is getUpdates: it returns up to limit updates from offset on and those
// that the offset confirms.
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

// drop takes out one update, as a webhook's success does.
func (q *queue) drop(it *item) bool {
	if it.gone {
		return false
	}
	it.gone = true
	q.live--
	q.head()
	return true
}

// pending are the items that wait, in order.
func (q *queue) pending() []*item {
	out := make([]*item, 0, q.live)
	for _, it := range q.items {
		if !it.gone {
			out = append(out, it)
		}
	}
	return out
}
