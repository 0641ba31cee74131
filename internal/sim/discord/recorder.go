package discord

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Offer is one event that was offered to a bot.
type Offer struct {
	N         int    // running number, from 1
	Bot       string // ID of the bot
	Kind      string // "MESSAGE_CREATE", "INTERACTION_CREATE", ...
	Channel   string
	Message   string
	From      string
	Text      string // content, name of the command or custom_id
	At        time.Time
	Sessions  int       // number of sessions that received it; 0: none, so that only the history has it
	Delivered time.Time // first write to a connection; zero: never
	Times     int       // number of writes
	Acked     time.Time // first heartbeat or resume that acknowledges it; zero: none
}

// A Call is one request to the REST API.
type Call struct {
	N        int // running number, from 1
	Bot      string
	Route    string // one of the Route constants; "": unknown route
	Path     string
	Channel  string
	Text     string // content
	Body     string // JSON of the request
	Files    []string
	At       time.Time
	Done     time.Time // zero: the call is still running
	Status   int       // HTTP status of the answer; 0: no answer was sent
	Code     int       // JSON error code of the answer
	Error    string    // error message of the answer
	Message  string    // ID of the message that it created or changed
	Repeat   bool      // nothing was created because the nonce was known
	Handled  bool      // the call had its effect
	Fault    Kind      // the fault that was applied, or Pass
	Answered bool      // the whole answer was written
}

// Counts are the counters of a Recorder. They are maintained with every option.
type Counts struct {
	Offered    int // events
	Missed     int // events that were offered to a bot without a session
	Acked      int // events, each counted once
	Delivered  int // writes of events, including repeated ones
	Calls      int
	Refused    int            // calls answered with an error
	Invalid    int            // calls answered with 401, 403 or 429
	Sent       int            // messages created by bots
	Repeated   int            // sends that created nothing because of their nonce
	Edited     int            // edits by bots
	Deleted    int            // deletes by bots
	Faults     int            // calls to which a fault was applied
	Connects   int            // gateway connections
	Identifies int            // sessions begun
	Resumes    int            // sessions resumed
	Heartbeats int            // heartbeats received
	ByRoute    map[string]int // calls by route
	Closes     map[int]int    // gateway connections closed by the server, by code; 0: cut
}

// A Recorder records what the server received and sent. Its methods may be called
// from any goroutine and return copies.
type Recorder struct {
	full bool

	mu      sync.Mutex // guards the fields below
	counts  Counts
	offers  []*Offer
	log     []*Call
	waiters map[chan struct{}]struct{}
}

func newRecorder(full bool) *Recorder {
	return &Recorder{
		full: full, counts: Counts{ByRoute: map[string]int{}, Closes: map[int]int{}},
		waiters: map[chan struct{}]struct{}{},
	}
}

// Counts returns a copy of the counters.
func (l *Recorder) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.ByRoute, c.Closes = maps.Clone(c.ByRoute), maps.Clone(c.Closes)
	return c
}

// Offers returns the events of the given kinds, or all events if no kind is
// given, in the order in which they were offered; nil with
// Options.CountersOnly.
func (l *Recorder) Offers(kinds ...string) []Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Offer
	for _, o := range l.offers {
		if len(kinds) == 0 || slices.Contains(kinds, o.Kind) {
			out = append(out, *o)
		}
	}
	return out
}

// Unacked returns the offers of the given kinds that no heartbeat and no resume
// has acknowledged.
func (l *Recorder) Unacked(kinds ...string) []Offer {
	return slices.DeleteFunc(l.Offers(kinds...), func(o Offer) bool { return !o.Acked.IsZero() })
}

// Calls returns the calls of the given routes, or all calls if no route is
// given, in the order of arrival; nil with Options.CountersOnly. A route that
// ends in "*" matches a prefix.
func (l *Recorder) Calls(routes ...string) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Call
	for _, c := range l.log {
		if len(routes) == 0 || slices.ContainsFunc(routes, func(r string) bool { return matchRoute(r, c.Route) }) {
			out = append(out, *c)
		}
	}
	return out
}

func matchRoute(pattern, route string) bool {
	if prefix, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(route, prefix)
	}
	return pattern == route
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

// note changes the record under its lock and wakes the waiting goroutines.
func (l *Recorder) note(change func(*Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.counts)
	for w := range l.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// offered records an offer.
func (l *Recorder) offered(o *Offer) {
	l.note(func(n *Counts) {
		n.Offered++
		o.N = n.Offered
		if o.Sessions == 0 {
			n.Missed++
		}
		if l.full {
			l.offers = append(l.offers, o)
		}
	})
}

// delivered adds n writes of an event; a negative n undoes a write.
func (l *Recorder) delivered(o *Offer, n int) {
	l.note(func(c *Counts) {
		c.Delivered += n
		o.Times += n
		switch {
		case o.Times == 0:
			o.Delivered = time.Time{}
		case o.Delivered.IsZero():
			o.Delivered = time.Now()
		}
	})
}

func (l *Recorder) acked(offers []*Offer) {
	if len(offers) == 0 {
		return
	}
	l.note(func(n *Counts) {
		for _, o := range offers {
			if o.Acked.IsZero() {
				o.Acked = time.Now()
				n.Acked++
			}
		}
	})
}

// arrived records a call. Later changes of the call go through note.
func (l *Recorder) arrived(c *Call) {
	l.note(func(n *Counts) {
		n.Calls++
		c.N = n.Calls
		n.ByRoute[c.Route]++
		if c.Fault != Pass {
			n.Faults++
		}
		if l.full {
			l.log = append(l.log, c)
		}
	})
}
