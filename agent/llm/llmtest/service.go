package llmtest

import (
	"sync"

	"hermesd/agent/llm"
	sim "hermesd/internal/sim/llm"
)

// A Service gives scripted answers through a simulated network service, so that providers
// with a network protocol can be tested with the same scripts as others.
type Service struct {
	*sim.Server

	mu      sync.Mutex // guards what follows
	answers []Answer
}

// NewService starts a service, which the caller must close. o.Reply is used when the script
// is used up.
func NewService(o sim.Options) *Service {
	s := &Service{}
	rest := o.Reply
	if rest == nil {
		rest = sim.Echo
	}
	o.Reply = func(r sim.Request) sim.Reply {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.answers) == 0 {
			return rest(r)
		}
		a := s.answers[0]
		s.answers = s.answers[1:]
		return a.reply()
	}
	s.Server = sim.New(o)
	return s
}

// Script appends answers to the script.
func (s *Service) Script(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

// stopWords are the stop reasons of the Messages API; the simulator translates them for
// other APIs.
var stopWords = map[llm.StopReason]string{llm.Length: "max_tokens", llm.Refusal: "refusal", llm.Paused: "pause_turn"}

// faultOf maps an error class to the simulator fault that causes it.
var faultOf = map[llm.Class]sim.Kind{
	llm.Auth: sim.Unauthorized, llm.Billing: sim.Unpaid, llm.RateLimit: sim.TooMany, llm.Overloaded: sim.Overloaded,
	llm.Server: sim.ServerError, llm.ContextOverflow: sim.Overflow, llm.TooLarge: sim.TooLarge, llm.NotFound: sim.Missing,
	llm.PrefixCheck: sim.Prefix, llm.InvalidResponse: sim.Garbage,
}

func (a Answer) reply() sim.Reply {
	rep := sim.Reply{Thinking: a.Thinking, Text: a.Text, Stop: stopWords[a.Stop], PerDelta: a.Delay}
	for _, c := range a.Calls {
		rep.Calls = append(rep.Calls, sim.Call{ID: c.ID, Name: c.Name, Args: c.Input})
	}
	if a.Usage != (llm.Usage{}) {
		rep.Usage = &sim.Usage{Input: a.Usage.Input, CacheRead: a.Usage.CacheRead, CacheWrite: a.Usage.CacheWrite, Output: a.Usage.Output}
	}
	if a.Cut {
		rep.Fault = &sim.Fault{Kind: sim.End, At: 4}
	}
	if e, ok := a.Err.(*llm.Error); ok { //nolint:errorlint // scripts contain unwrapped errors
		rep.Fault = &sim.Fault{Kind: faultOf[e.Class], After: e.After}
	}
	if a.Hold != nil {
		rep.Fault = &sim.Fault{Kind: sim.Stall, At: 5}
	}
	return rep
}
