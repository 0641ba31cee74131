package slack

import (
	"net/http"
	"strings"
	"time"
)

// A FaultKind is what a fault does to a call.
type FaultKind int

// The kinds of faults. Those named After let the call have its effect.
const (
	Pass         FaultKind = iota // nothing but the delays
	Fail                          // refused, before it has any effect
	FailAfter                     // has its effect, then is refused
	Hang                          // never handled, never answered
	HangAfter                     // has its effect, then is never answered
	Cut                           // connection cut before the call is handled
	CutAfter                      // has its effect, then the connection is cut
	CutBody                       // has its effect; the answer breaks off in the middle
	Garbage                       // not handled; the answer is no JSON
	GarbageAfter                  // has its effect; the answer is no JSON
)

// String returns the name of the kind in plain words.
func (k FaultKind) String() string {
	names := [...]string{
		"pass", "fail", "fail after", "hang", "hang after", "cut", "cut after", "cut body", "garbage", "garbage after",
	}
	if k < 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// A Fault is trouble ordered for certain calls. The first fault that matches a
// call hits it; faults that are used up are gone.
type Fault struct {
	Kind FaultKind

	// What it hits; empty fields match everything.
	Method  string // a method, or MethodUpload and the like; "chat.*" matches a beginning
	Team    string
	Channel string
	Text    string          // a part of the text, blocks or markdown_text
	Match   func(Call) bool // asked last, if given

	Skip  int           // matching calls that pass unhurt before it begins
	Times int           // calls that it hits; 0: one, negative: all
	For   time.Duration // how long it lasts; 0: until used up or removed

	Delay time.Duration // waited before the call is handled
	Late  time.Duration // waited after the call is handled, before it is answered

	// The refusal of Fail and FailAfter: Error in a body of JSON, with Status
	// or 200; without Error a page in HTML with Status or 502.
	Error      string
	Status     int
	RetryAfter time.Duration // makes a 429 with Retry-After
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
	prefix, open := strings.CutSuffix(f.Method, "*")
	switch {
	case f.Method != "" && !open && f.Method != c.Method, open && !strings.HasPrefix(c.Method, prefix):
		return false
	case f.Channel != "" && f.Channel != c.Channel, f.Team != "" && f.Team != c.Team:
		return false
	case !strings.Contains(c.Params["text"]+"\n"+c.Params["markdown_text"]+"\n"+c.Params["blocks"], f.Text):
		return false
	}
	return f.Match == nil || f.Match(*c)
}

// refusal is the answer of Fail and FailAfter.
func (f Fault) refusal() *apiError {
	switch {
	case f.RetryAfter > 0:
		return tooMany(f.RetryAfter)
	case f.Error != "":
		return &apiError{code: f.Error, status: f.Status}
	case f.Status != 0:
		return &apiError{code: http.StatusText(f.Status), status: f.Status, html: true}
	}
	return &apiError{code: "Bad Gateway", status: http.StatusBadGateway, html: true}
}
