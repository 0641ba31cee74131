package telegram

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// An Offer is one update that was offered to a bot.
type Offer struct {
	Bot       int64  // ID of the bot
	Update    int    // its update_id
	Kind      string // "message", "edited_message", "callback_query", ...
	Chat      int64
	Thread    int // forum topic
	Message   int // message_id; 0 if the update is not about a message
	From      int64
	Text      string // text, caption or callback data
	At        time.Time
	Delivered time.Time // first delivery by getUpdates or webhook; zero: never
	Times     int       // number of deliveries
	Confirmed time.Time // zero: not confirmed
	Forgotten bool      // expired or dropped before it was confirmed
}

// A Call is one request to the API.
type Call struct {
	N        int // running number, from 1
	Bot      int64
	Method   string // in lower case; "file" for a download
	Chat     int64
	Params   map[string]string
	Files    []string // names of the parameters that were uploaded files
	At       time.Time
	Done     time.Time // zero: the call is still running
	Status   int       // HTTP status of the answer; 0: no answer was sent
	Error    string    // description of the error
	Message  int       // ID of the message that it created or changed
	Handled  bool      // the call had its effect
	Fault    Kind      // the fault that was applied, or Pass
	Answered bool      // the whole answer was written
}

// Counts are the counters of a Recorder. They are maintained with every option.
type Counts struct {
	Offered   int // updates
	Confirmed int
	Forgotten int
	Delivered int // deliveries, including repeated ones
	Calls     int
	Refused   int            // calls answered with ok: false
	Sent      int            // messages created by bots
	Edited    int            // edits by bots
	Deleted   int            // deletes by bots
	Faults    int            // calls to which a fault was applied
	ByMethod  map[string]int // calls by method
}

// A Recorder records what the server received and sent. Its methods may be called
// from any goroutine and return copies.
type Recorder struct {
	full bool

	mu      sync.Mutex // guards the fields below
	counts  Counts
	calls   int
	offers  []*Offer
	log     []*Call
	waiters map[chan struct{}]struct{}
}

func newRecorder(full bool) *Recorder {
	return &Recorder{full: full, counts: Counts{ByMethod: map[string]int{}}, waiters: map[chan struct{}]struct{}{}}
}

// Counts returns a copy of the counters.
func (l *Recorder) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.ByMethod = maps.Clone(c.ByMethod)
	return c
}

// Offers returns all updates in the order in which they were offered; nil with
// Options.CountersOnly.
func (l *Recorder) Offers() []Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Offer, len(l.offers))
	for i, o := range l.offers {
		out[i] = *o
	}
	return out
}

// Calls returns the calls of the given methods, or all calls if no method is
// given, in the order of arrival; nil with Options.CountersOnly. Method names
// are compared without regard to case.
func (l *Recorder) Calls(methods ...string) []Call {
	want := map[string]bool{}
	for _, m := range methods {
		want[methodKey(m)] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Call
	for _, c := range l.log {
		if len(want) == 0 || want[c.Method] {
			out = append(out, *c)
		}
	}
	return out
}

// WaitFor waits until ok returns true. It calls ok immediately and again after
// changes, never on a timer; one call may follow several changes. If ctx ends
// first, the error wraps the cause.
func (l *Recorder) WaitFor(ctx context.Context, ok func(*Recorder) bool) error {
	wake := make(chan struct{}, 1)
	l.mu.Lock()
	l.waiters[wake] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waiters, wake)
		l.mu.Unlock()
	}()
	for !ok(l) {
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("wait for the recorder: %w", context.Cause(ctx))
		}
	}
	return nil
}

// WaitCount waits until count, applied to the counters, returns at least n.
func (l *Recorder) WaitCount(ctx context.Context, n int, count func(Counts) int) error {
	return l.WaitFor(ctx, func(l *Recorder) bool { return count(l.Counts()) >= n })
}

func (l *Recorder) changedLocked() {
	for w := range l.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// note changes the counters and wakes the waiting goroutines.
func (l *Recorder) note(change func(*Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.counts)
	l.changedLocked()
}

// offered records an offer.
func (l *Recorder) offered(o *Offer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Offered++
	if l.full {
		l.offers = append(l.offers, o)
	}
	l.changedLocked()
}

func (l *Recorder) delivered(at time.Time, offers ...*Offer) {
	if len(offers) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range offers {
		l.counts.Delivered++
		if o.Times++; o.Times == 1 {
			o.Delivered = at
		}
	}
	l.changedLocked()
}

// settled marks offers as no longer pending.
func (l *Recorder) settled(at time.Time, confirmed bool, offers ...*Offer) {
	if len(offers) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range offers {
		if !confirmed {
			o.Forgotten = true
			l.counts.Forgotten++
			continue
		}
		o.Confirmed = at
		l.counts.Confirmed++
	}
	l.changedLocked()
}

// arrived records a call. Later changes of the call go through update.
func (l *Recorder) arrived(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	c.N = l.calls
	l.counts.Calls++
	l.counts.ByMethod[c.Method]++
	if c.Fault != Pass {
		l.counts.Faults++
	}
	if l.full {
		l.log = append(l.log, c)
	}
	l.changedLocked()
}

// update changes a recorded call.
func (l *Recorder) update(change func(*Counts)) { l.note(change) }
