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

// An Offer is one event that was offered to an app.
type Offer struct {
	App        string
	Team       string
	Event      string // event_id; empty for interactions and slash commands
	Kind       string // "message", "app_mention", …, "slash_commands", "block_actions"
	Subtype    string
	Channel    string
	TS         string // of the message that the event is about
	Thread     string
	User       string
	Text       string
	Payload    json.RawMessage
	At         time.Time
	Deliveries []Delivery
	Acked      time.Time       // first valid acknowledgement; zero: none
	Answer     json.RawMessage // the payload of the acknowledgement
	Lost       bool            // no further attempt follows
}

// A Delivery is one envelope with which an event was sent.
type Delivery struct {
	Envelope string
	Attempt  int    // 0, then 1 to 3
	Reason   string // retry_reason
	Socket   int    // number of the socket; 0: no socket was open
	At       time.Time
	Acked    time.Time
	Late     bool // acknowledged after more than 3 s, which does not count
	Spoil    Spoil
}

// Latency returns the time from sending the acknowledged envelope to its
// acknowledgement; negative if there was none.
func (o Offer) Latency() time.Duration {
	for _, d := range o.Deliveries {
		if !d.Acked.IsZero() && !d.Late {
			return d.Acked.Sub(d.At)
		}
	}
	return -1
}

// A Call is one request: a method of the Web API, an upload, a download, or a
// request to a response URL.
type Call struct {
	N        int // running number, from 1
	Team     string
	App      string
	Method   string
	Channel  string
	Params   map[string]string // without the token
	At       time.Time
	Done     time.Time // zero: the call is still running
	Status   int       // HTTP status; 0: no answer was sent
	Error    string    // error code of the answer
	TS       string    // of the message that it created or changed
	Handled  bool      // the call had its effect
	Fault    FaultKind // the fault that was applied, or Pass
	Answered bool      // the whole answer was written
}

// A Link is one Socket Mode connection.
type Link struct {
	N      int
	App    string
	Opened time.Time
	Closed time.Time // zero: open
	Why    string    // reason of the close
	Sent   int       // number of envelopes
	Acked  int       // number of valid acknowledgements
}

// Counts are the counters of a Recorder. They are maintained with every option.
type Counts struct {
	Offered     int // events
	Acked       int
	Lost        int // events without an acknowledgement after the last attempt
	Delivered   int // envelopes, including repeated ones
	Repeated    int // envelopes with a retry_attempt
	Late        int // acknowledgements after the deadline
	Strange     int // frames from apps that do not name an outstanding envelope
	Calls       int
	Refused     int // calls answered with ok: false or an error
	Limited     int // calls answered with 429
	Sent        int // messages created by bots
	Edited      int // edits by bots
	Deleted     int // deletes by bots
	Faults      int // calls to which a fault was applied
	Links       int // sockets opened
	Open        int // sockets open now
	MostOpen    int // maximum number of sockets of one app open at the same time
	ByMethod    map[string]int
	LongestAck  time.Duration
	AckDuration time.Duration // sum over all acknowledgements
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
	links   []*Link
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

// Offers returns the events of the given kinds, or all events if no kind is
// given, in the order in which they were offered; nil with
// Options.CountersOnly.
func (l *Recorder) Offers(kinds ...string) []Offer {
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

// Calls returns the calls of the given methods, or all calls if no method is
// given, in the order of arrival; nil with Options.CountersOnly.
func (l *Recorder) Calls(methods ...string) []Call {
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

// Links returns all sockets in the order in which they were opened.
func (l *Recorder) Links() []Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Link, len(l.links))
	for i, k := range l.links {
		out[i] = *k
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

// offered records an event.
func (l *Recorder) offered(o *Offer) {
	l.note(func(c *Counts) {
		c.Offered++
		if l.full {
			l.offers = append(l.offers, o)
		}
	})
}

// opened records a socket; open is the number of open sockets of the app.
func (l *Recorder) opened(k *Link, open int) {
	l.note(func(c *Counts) {
		c.Links++
		c.Open++
		c.MostOpen = max(c.MostOpen, open)
		if l.full {
			l.links = append(l.links, k)
		}
	})
}

// arrived records a call. Later changes of the call go through note.
func (l *Recorder) arrived(c *Call) {
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

// find returns the offer of an event, or nil.
func (l *Recorder) find(event string) *Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.offers {
		if o.Event == event && event != "" {
			return o
		}
	}
	return nil
}
