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

// An Offer is one event that was put before a bot.
type Offer struct {
	N         int    // running number, from 1
	Bot       string // whose event it is
	Kind      string // "MESSAGE_CREATE", "INTERACTION_CREATE", ...
	Channel   string
	Message   string
	From      string
	Text      string // content, name of the command or custom id
	At        time.Time
	Sessions  int       // how many sessions it was put into; 0: nobody was there and only history can tell
	Delivered time.Time // first time written to a connection; zero: never
	Times     int       // how often it was written
	Acked     time.Time // first heartbeat or resume that counts it in; zero: none
}

// A Call is one request to the REST interface.
type Call struct {
	N        int // running number, from 1
	Bot      string
	Route    string // as in the Route constants; "" if there is none
	Path     string
	Channel  string
	Text     string // content
	Body     string // JSON of the request
	Files    []string
	At       time.Time
	Done     time.Time // zero: still running
	Status   int       // HTTP status of the answer; 0: no answer went out
	Code     int       // JSON error code of a refusal
	Error    string    // message of a refusal
	Message  string    // the message that it made or changed
	Repeat   bool      // nothing was made, the nonce was known
	Handled  bool      // it had its effect
	Fault    Kind      // the fault that hit it, or Pass
	Answered bool      // the whole answer was written
}

// Counts are the sums of a ledger. They are kept always and cost nothing.
type Counts struct {
	Offered    int // events
	Missed     int // events for which a bot had no session
	Acked      int // events, each once
	Delivered  int // writes of events, with repeats
	Calls      int
	Refused    int            // calls answered with an error
	Invalid    int            // calls answered with 401, 403 or 429
	Sent       int            // messages made by bots
	Repeated   int            // sends that made nothing because of their nonce
	Edited     int            // edits by bots
	Deleted    int            // deletes by bots
	Faults     int            // calls hit by a fault
	Connects   int            // gateway connections
	Identifies int            // sessions begun
	Resumes    int            // sessions resumed
	Heartbeats int            // heartbeats received
	ByRoute    map[string]int // calls by route
	Closes     map[int]int    // gateway connections closed by the server, by code; 0: cut
}

// A Ledger is what the server saw. It may be read at any time; what it returns
// are copies.
type Ledger struct {
	full bool

	mu      sync.Mutex // guards what follows
	counts  Counts
	offers  []*Offer
	log     []*Call
	waiters map[chan struct{}]struct{}
}

func newLedger(full bool) *Ledger {
	return &Ledger{
		full: full, counts: Counts{ByRoute: map[string]int{}, Closes: map[int]int{}},
		waiters: map[chan struct{}]struct{}{},
	}
}

// Counts returns the sums.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.ByRoute, c.Closes = maps.Clone(c.ByRoute), maps.Clone(c.Closes)
	return c
}

// Offers returns the events of the given kinds, of all kinds if none is given,
// in the order of offering; nothing if the server keeps counters only.
func (l *Ledger) Offers(kinds ...string) []Offer {
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
// has counted in.
func (l *Ledger) Unacked(kinds ...string) []Offer {
	return slices.DeleteFunc(l.Offers(kinds...), func(o Offer) bool { return !o.Acked.IsZero() })
}

// Calls returns the calls of the given routes, of all routes if none is given,
// in the order of arrival; nothing if the server keeps counters only. A route
// that ends in "*" matches a beginning.
func (l *Ledger) Calls(routes ...string) []Call {
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

// WaitFor returns nil as soon as ok says so. It asks at once and then after
// changes, never by the clock; many changes together may be asked about once.
// When ctx ends first it returns the cause.
func (l *Ledger) WaitFor(ctx context.Context, ok func(*Ledger) bool) error {
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
			return fmt.Errorf("wait for the ledger: %w", context.Cause(ctx))
		}
	}
	return nil
}

// WaitCount waits until count, taken from the sums, is at least n.
func (l *Ledger) WaitCount(ctx context.Context, n int, count func(Counts) int) error {
	return l.WaitFor(ctx, func(l *Ledger) bool { return count(l.Counts()) >= n })
}

// note changes the sums, and what stands in the ledger, and wakes who waits.
func (l *Ledger) note(change func(*Counts)) {
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

// offered takes an offer into the ledger.
func (l *Ledger) offered(o *Offer) {
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

// delivered counts a write of an event, or takes it back.
func (l *Ledger) delivered(o *Offer, n int) {
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

func (l *Ledger) acked(offers []*Offer) {
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

// arrived takes a call into the ledger; from then on it is changed by note.
func (l *Ledger) arrived(c *Call) {
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
