package telegram

import (
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

// A Fault is applied to calls that match it. If several faults match a call,
// the first one is applied. A fault that is used up is removed.
type Fault struct {
	Kind Kind

	// Which calls the fault matches; empty fields match every call.
	Method string // a method, compared without regard to case; "send*" matches a prefix; "file" matches downloads
	Chat   int64
	Text   string // a part of the text or caption
	Bot    int64
	Match  func(Call) bool // optional; checked after the other fields

	Skip  int           // number of matching calls that pass before the fault is applied
	Times int           // number of calls to which it is applied; 0: one, negative: all
	For   time.Duration // how long it is active; 0: until used up or removed

	Delay time.Duration // delay before the call is handled (Slow: the duration of the answer)
	Late  time.Duration // delay between handling and answer

	Status      int           // HTTP status of Fail and FailAfter; 0: 502
	Description string        // error text; empty: the default text of Status
	RetryAfter  time.Duration // if positive, the answer is a 429 with parameters.retry_after
	NoJSON      bool          // the answer is an HTML page, as proxies send it
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
	case f.Chat != 0 && f.Chat != c.Chat, f.Bot != 0 && f.Bot != c.Bot:
		return false
	case f.Text != "" && !strings.Contains(c.Params["text"], f.Text) && !strings.Contains(c.Params["caption"], f.Text):
		return false
	}
	return f.Match == nil || f.Match(*c)
}

// refusal returns the error that Fail and FailAfter answer with.
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
