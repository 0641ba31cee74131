package telegram

import (
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

// A Fault is trouble ordered for certain calls. The first fault that matches a
// call hits it; faults that are used up are gone.
type Fault struct {
	Kind Kind

	// What it hits; empty fields match everything.
	Method string // a method, without regard to case; "send*" matches a beginning; "file" matches downloads
	Chat   int64
	Text   string // a part of the text or caption
	Bot    int64
	Match  func(Call) bool // asked last, if given

	Skip  int           // matching calls that pass unhurt before it begins
	Times int           // calls that it hits; 0: one, negative: all
	For   time.Duration // how long it lasts; 0: until used up or removed

	Delay time.Duration // waited before the call is handled (Slow: the length of the answer)
	Late  time.Duration // waited after the call is handled, before it is answered

	Status      int           // of Fail and FailAfter; 0: 502
	Description string        // of the refusal; empty: the usual one of Status
	RetryAfter  time.Duration // makes a 429 with parameters.retry_after
	NoJSON      bool          // the refusal is a page in HTML, as proxies send it
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
	in.Method = strings.ToLower(f.Method)
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
	case f.Chat != 0 && f.Chat != c.Chat, f.Bot != 0 && f.Bot != c.Bot:
		return false
	case f.Text != "" && !strings.Contains(c.Params["text"], f.Text) && !strings.Contains(c.Params["caption"], f.Text):
		return false
	}
	return f.Match == nil || f.Match(*c)
}

// refusal is the answer of Fail and FailAfter.
func (f Fault) refusal() *apiError {
	if f.RetryAfter > 0 {
		return tooMany(f.RetryAfter)
	}
	e := &apiError{code: f.Status, description: f.Description}
	if e.code == 0 {
		e.code = 502
	}
	if e.description == "" {
		e.description = usualDescription(e.code)
	}
	return e
}
