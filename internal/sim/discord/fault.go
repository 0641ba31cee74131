package discord

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Kind is what a fault does to a call.
type Kind int

// The kinds of faults. Those named After let the call have its effect.
const (
	Pass         Kind = iota // nothing but the delays
	Fail                     // refused with Status, before it has any effect
	FailAfter                // has its effect, then is answered with Status
	Hang                     // never handled, never answered
	HangAfter                // has its effect, then is never answered
	Cut                      // connection cut before the call is handled
	CutAfter                 // has its effect, then the connection is cut
	CutBody                  // has its effect; the answer breaks off in the middle
	Garbage                  // not handled; the answer is no JSON
	GarbageAfter             // has its effect; the answer is no JSON
	Slow                     // has its effect; the answer trickles for Delay
)

var kindNames = [...]string{"pass", "fail", "fail after", "hang", "hang after", "cut", "cut after", "cut body",
	"garbage", "garbage after", "slow"}

// String returns the name of the kind in plain words.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// A Fault is trouble ordered for certain calls of the REST interface. The first
// fault that matches a call hits it; faults that are used up are gone. Trouble
// of the gateway is made by CutAll, Swallow, Reconnect, Invalidate and CloseAll.
type Fault struct {
	Kind Kind

	// What it hits; empty fields match everything.
	Route   string // one of the Route constants; one that ends in "*" matches a beginning
	Channel string
	Text    string // a part of the content
	Bot     string
	Match   func(Call) bool // asked last, if given

	Skip  int           // matching calls that pass unhurt before it begins
	Times int           // calls that it hits; 0: one, negative: all
	For   time.Duration // how long it lasts; 0: until used up or removed

	Delay time.Duration // waited before the call is handled (Slow: the length of the answer)
	Late  time.Duration // waited after the call is handled, before it is answered

	Status     int           // of Fail and FailAfter; 0: 502
	Code       int           // JSON error code of the refusal
	Message    string        // of the refusal; empty: the usual one of Status
	RetryAfter time.Duration // makes a 429
	Global     bool          // the 429 is about all routes
	NoJSON     bool          // the refusal is a page in HTML, as proxies send it
}

// An Injected is a fault in force.
type Injected struct {
	Fault
	s     *Server
	until time.Time
	seen  int // guarded by s.faultMu, like hits
	hits  int
}

// Inject puts a fault into force.
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

// Remove takes the fault out of force; calls that it has hit stay hit.
func (f *Injected) Remove() {
	f.s.faultMu.Lock()
	defer f.s.faultMu.Unlock()
	f.s.dropFaultLocked(f)
}

// Hits is the number of calls that the fault has hit.
func (f *Injected) Hits() int {
	f.s.faultMu.Lock()
	defer f.s.faultMu.Unlock()
	return f.hits
}

// ClearFaults takes all faults out of force.
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

// faultFor returns the fault that hits c, if any.
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

// refusal is the answer of Fail and FailAfter.
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
