package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// An Offer is one event that was put before an app.
type Offer struct {
	App        string
	Team       string
	Event      string // event_id; empty for interactions and slash commands
	Kind       string // "message", "app_mention", …, "slash_commands", "block_actions"
	Subtype    string
	Channel    string
	TS         string // of the message that it is about
	Thread     string
	User       string
	Text       string
	Payload    json.RawMessage
	At         time.Time
	Deliveries []Delivery
	Acked      time.Time       // first acknowledgement in time; zero: none
	Answer     json.RawMessage // the payload of the acknowledgement
	Lost       bool            // given up; the app will never see it again
}

// A Delivery is one envelope in which an event was sent.
type Delivery struct {
	Envelope string
	Attempt  int    // 0, then 1 to 3
	Reason   string // retry_reason
	Socket   int    // number of the socket; 0: none was open
	At       time.Time
	Acked    time.Time
	Late     bool // acknowledged after 3 s, which does not count
	Spoil    Spoil
}

// Latency is the time from the sending of the envelope that was acknowledged to
// the acknowledgement; negative if there was none.
func (o Offer) Latency() time.Duration {
	for _, d := range o.Deliveries {
		if !d.Acked.IsZero() && !d.Late {
			return d.Acked.Sub(d.At)
		}
	}
	return -1
}

// A Call is one request: a method of the Web API, an upload, a download, or a
// use of a response URL.
type Call struct {
	N        int // running number, from 1
	Team     string
	App      string
	Method   string
	Channel  string
	Params   map[string]string // without the token
	At       time.Time
	Done     time.Time // zero: still running
	Status   int       // of HTTP; 0: no answer went out
	Error    string    // of a refusal
	TS       string    // the message that it made or changed
	Handled  bool      // it had its effect
	Fault    FaultKind // the fault that hit it, or Pass
	Answered bool      // the whole answer was written
}

// A Link is one socket.
type Link struct {
	N      int
	App    string
	Opened time.Time
	Closed time.Time // zero: open
	Why    string    // why it was closed
	Sent   int       // envelopes
	Acked  int       // acknowledgements that counted
}

// Counts are the sums of a ledger. They are kept always and cost nothing.
type Counts struct {
	Offered     int // events
	Acked       int
	Lost        int // events that were given up
	Delivered   int // envelopes, with repeats
	Repeated    int // envelopes with a retry_attempt
	Late        int // acknowledgements that came too late
	Strange     int // frames from apps that name no envelope under way
	Calls       int
	Refused     int // calls answered with ok: false or an error
	Limited     int // calls answered with 429
	Sent        int // messages made by bots
	Edited      int // edits by bots
	Deleted     int // deletes by bots
	Faults      int // calls hit by a fault
	Links       int // sockets opened
	Open        int // sockets open now
	MostOpen    int // sockets of one app open at the same time
	ByMethod    map[string]int
	LongestAck  time.Duration
	AckDuration time.Duration // of all acknowledgements together
}

// A Ledger is what the server saw. It may be read at any time; what it returns
// are copies.
type Ledger struct {
	full bool

	mu      sync.Mutex // guards what follows
	counts  Counts
	calls   int
	offers  []*Offer
	log     []*Call
	links   []*Link
	waiters map[chan struct{}]struct{}
}

func newLedger(full bool) *Ledger {
	return &Ledger{full: full, counts: Counts{ByMethod: map[string]int{}}, waiters: map[chan struct{}]struct{}{}}
}

// Counts returns the sums.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.ByMethod = maps.Clone(c.ByMethod)
	return c
}

// Offers returns the events of the given kinds, of all if none is given, in the
// order of offering; nothing if the server keeps counters only.
func (l *Ledger) Offers(kinds ...string) []Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Offer
	for _, o := range l.offers {
		if len(kinds) == 0 || slices.Contains(kinds, o.Kind) {
			copied := *o
			copied.Deliveries = slices.Clone(o.Deliveries)
			out = append(out, copied)
		}
	}
	return out
}

// Calls returns the calls of the given methods, of all methods if none is
// given, in the order of arrival; nothing if the server keeps counters only.
func (l *Ledger) Calls(methods ...string) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Call
	for _, c := range l.log {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			out = append(out, *c)
		}
	}
	return out
}

// Links returns every socket in the order of opening.
func (l *Ledger) Links() []Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Link, len(l.links))
	for i, k := range l.links {
		out[i] = *k
	}
	return out
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

// note changes what the ledger holds and wakes who waits.
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

// offered takes an event into the ledger.
func (l *Ledger) offered(o *Offer) {
	l.note(func(c *Counts) {
		c.Offered++
		if l.full {
			l.offers = append(l.offers, o)
		}
	})
}

// opened takes a socket into the ledger; open is how many the app has now.
func (l *Ledger) opened(k *Link, open int) {
	l.note(func(c *Counts) {
		c.Links++
		c.Open++
		c.MostOpen = max(c.MostOpen, open)
		if l.full {
			l.links = append(l.links, k)
		}
	})
}

// arrived takes a call into the ledger; from then on it is changed by note.
func (l *Ledger) arrived(c *Call) {
	l.note(func(n *Counts) {
		l.calls++
		c.N = l.calls
		n.Calls++
		n.ByMethod[c.Method]++
		if c.Fault != Pass {
			n.Faults++
		}
		if l.full {
			l.log = append(l.log, c)
		}
	})
}

// find is the offer of an event.
func (l *Ledger) find(event string) *Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.offers {
		if o.Event == event && event != "" {
			return o
		}
	}
	return nil
}
