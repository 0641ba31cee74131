package discord

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Kind is the effect of a fault on a call.
type Kind int

// Kinds of faults. With a kind whose name ends in After the call has its
// effect.
const (
	Pass         Kind = iota // only the delays of the fault
	Fail                     // refused with Status, before it has any effect
	FailAfter                // has its effect, then is answered with Status
	Hang                     // never handled, never answered
	HangAfter                // has its effect, then is never answered
	Cut                      // connection cut before the call is handled
	CutAfter                 // has its effect, then the connection is cut
	CutBody                  // has its effect; the answer is truncated
	Garbage                  // not handled; the answer is not JSON
	GarbageAfter             // has its effect; the answer is not JSON
	Slow                     // has its effect; the answer is written slowly over Delay
)

var kindNames = [...]string{"pass", "fail", "fail after", "hang", "hang after", "cut", "cut after", "cut body",
	"garbage", "garbage after", "slow"}

// String returns the name of the kind.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// A Fault is applied to REST calls that match it. If several faults match a
// call, the first one is applied. A fault that is used up is removed. For
// faults of the gateway see CutAll, Swallow, Reconnect, Invalidate and
// CloseAll.
type Fault struct {
	Kind Kind

	// Which calls the fault matches; empty fields match every call.
	Route   string // one of the Route constants; a value that ends in "*" matches a prefix
	Channel string
	Text    string // part of the content
	Bot     string
	Match   func(Call) bool // optional; checked after the other fields

	Skip  int           // number of matching calls that pass before the fault is applied
	Times int           // number of calls to which it is applied; 0: one, negative: all
	For   time.Duration // how long it is active; 0: until used up or removed

	Delay time.Duration // delay before the call is handled (Slow: the duration of the answer)
	Late  time.Duration // delay between handling and answer

	Status     int           // HTTP status of Fail and FailAfter; 0: 502
	Code       int           // JSON error code of the answer
	Message    string        // error text; empty: the default text of Status
	RetryAfter time.Duration // if positive, the answer is a 429
	Global     bool          // the 429 applies to all routes
	NoJSON     bool          // the answer is an HTML page, as proxies send it
}

// An Injected is an active fault.
type Injected struct {
	Fault
	s     *Server
	until time.Time
	seen  int // s.faultMu guards seen and hits
	hits  int
}

// Inject activates a fault.
func (s *Server) Inject(f Fault) *Injected {
	in := &Injected{Fault: f, s: s}
	if f.For > 0 {
		in.until = time.Now().Add(f.For)
	}
	if in.Times == 0 {
		in.Times = 1
	}
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	s.faults = append(s.faults, in)
	return in
}

// Remove deactivates the fault. Calls to which it has already been applied are
// not affected.
func (f *Injected) Remove() {
	f.s.faultMu.Lock()
	defer f.s.faultMu.Unlock()
	f.s.dropFaultLocked(f)
}

// Hits returns the number of calls to which the fault has been applied.
func (f *Injected) Hits() int {
	f.s.faultMu.Lock()
	defer f.s.faultMu.Unlock()
	return f.hits
}

// ClearFaults deactivates all faults.
func (s *Server) ClearFaults() {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	s.faults = nil
}

func (s *Server) dropFaultLocked(f *Injected) {
	for i, other := range s.faults {
		if other == f {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			return
		}
	}
}

// faultFor returns the fault that is applied to c, or the zero Fault.
func (s *Server) faultFor(c *Call) Fault {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	now := time.Now()
	for _, f := range s.faults {
		if !f.until.IsZero() && now.After(f.until) || !f.matches(c) {
			continue
		}
		if f.seen++; f.seen <= f.Skip {
			continue
		}
		f.hits++
		if f.Times > 0 && f.hits >= f.Times {
			s.dropFaultLocked(f)
		}
		return f.Fault
	}
	return Fault{}
}

func (f *Injected) matches(c *Call) bool {
	switch {
	case f.Route != "" && !matchRoute(f.Route, c.Route),
		f.Channel != "" && f.Channel != c.Channel,
		f.Bot != "" && f.Bot != c.Bot,
		!strings.Contains(c.Text, f.Text):
		return false
	}
	return f.Match == nil || f.Match(*c)
}

// refusal returns the error that Fail and FailAfter answer with.
func (f Fault) refusal() *apiError {
	if f.RetryAfter > 0 {
		scope := "user"
		if f.Global {
			scope = "global"
		}
		return tooMany(f.RetryAfter, f.Global, scope)
	}
	e := refuse(cmp.Or(f.Status, http.StatusBadGateway), f.Code, f.Message)
	if e.message == "" {
		e.message = fmt.Sprintf("%d: %s", e.status, http.StatusText(e.status))
	}
	return e
}
