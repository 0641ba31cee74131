package slack

import (
	"net/http"
	"strings"
	"time"
)

// A FaultKind is the effect of a fault on a call.
type FaultKind int

// Kinds of faults. With a kind whose name ends in After the call has its
// effect.
const (
	Pass         FaultKind = iota // only the delays of the fault
	Fail                          // refused, before it has any effect
	FailAfter                     // has its effect, then is refused
	Hang                          // never handled, never answered
	HangAfter                     // has its effect, then is never answered
	Cut                           // connection cut before the call is handled
	CutAfter                      // has its effect, then the connection is cut
	CutBody                       // has its effect; the answer is truncated
	Garbage                       // not handled; the answer is not JSON
	GarbageAfter                  // has its effect; the answer is not JSON
)

// String returns the name of the kind.
func (k FaultKind) String() string {
	names := [...]string{
		"pass", "fail", "fail after", "hang", "hang after", "cut", "cut after", "cut body", "garbage", "garbage after",
	}
	if k < 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// A Fault is applied to calls that match it. If several faults match a call,
// the first one is applied. A fault that is used up is removed.
type Fault struct {
	Kind FaultKind

	// Which calls the fault matches; empty fields match every call.
	Method  string // a method, or MethodUpload and the like; "chat.*" matches a prefix
	Team    string
	Channel string
	Text    string          // a part of the text, blocks or markdown_text
	Match   func(Call) bool // optional; checked after the other fields

	Skip  int           // number of matching calls that pass before the fault is applied
	Times int           // number of calls to which it is applied; 0: one, negative: all
	For   time.Duration // how long it is active; 0: until used up or removed

	Delay time.Duration // delay before the call is handled
	Late  time.Duration // delay between handling and answer

	// The answer of Fail and FailAfter. With Error it is a JSON body with
	// Status, or 200 if Status is 0; without Error it is an HTML page with
	// Status, or 502 if Status is 0.
	Error      string
	Status     int
	RetryAfter time.Duration // if positive, the answer is a 429 with Retry-After
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

// refusal returns the error that Fail and FailAfter answer with.
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
