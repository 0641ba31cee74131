// Package llmtest provides test support for model calls: Scripted, a provider that answers
// from a list; Service, the same over a simulated network service; and Suite, the tests
// that every provider must pass.
package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"hermesd/agent/llm"
)

// An Answer is the response of Scripted to one request. The zero Answer is an empty end of
// turn.
type Answer struct {
	Thinking string // streamed first
	Text     string // streamed in two or more pieces
	Calls    []Call // each announced by a ToolStart
	// Stop is the stop reason; "" is CallTools if there are Calls, otherwise EndTurn.
	Stop  llm.StopReason
	Usage llm.Usage // zero: 10 tokens in, a quarter of the characters out
	// Raw and Dialect are copied into the message.
	Raw     json.RawMessage
	Dialect string

	Notices []llm.Notice // yielded before everything else
	// Err is yielded instead of Done, after the streamed events.
	Err error
	// Cut ends the sequence without Done and without an error.
	Cut bool
	// Started is closed when the request has been recorded.
	Started chan<- struct{}
	// Wait delays the answer until it is closed or a value can be received.
	Wait <-chan struct{}
	// Hold does the same after the text, before Calls and Done.
	Hold <-chan struct{}
	// Delay is the delay before every event of the stream.
	Delay time.Duration
}

// A Call is a tool use in an Answer.
type Call struct {
	ID    string // "": call_N, counted per Scripted
	Name  string
	Input string // JSON as the model wrote it; "" is {}
}

// Say returns an answer of text.
func Say(text string) Answer { return Answer{Text: text} }

// Use returns an answer that calls one tool.
func Use(name, input string) Answer { return Answer{Calls: []Call{{Name: name, Input: input}}} }

// Fail returns an answer that fails with an error of class.
func Fail(class llm.Class) Answer {
	return Answer{Err: &llm.Error{Class: class, Message: "as scripted"}}
}

// A Recorded is a copy of a request that Scripted received.
type Recorded struct {
	llm.Request               // Transcript is nil
	Messages    []llm.Message // the transcript as it was
	At          time.Time
}

// Newest returns the text of the newest message.
func (r Recorded) Newest() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[len(r.Messages)-1].Text()
}

// Scripted is a provider that gives its answers in order, one per request, and records the
// requests. Like every provider it rejects a request whose last message is not the user's;
// that uses up no answer. When no answer is left it calls Default; without one it fails
// with an error of class format_error, which is not retried. Its methods may be called from
// any goroutine.
type Scripted struct {
	// Default answers when the list is used up. It must be set before the first request.
	Default func(Recorded) Answer
	// ProviderName is returned by Name; "" is "scripted".
	ProviderName string

	mu       sync.Mutex // guards what follows
	answers  []Answer
	requests []Recorded
	calls    int
	arrived  chan struct{} // closed and replaced at each request
}

// NewScripted returns a provider that gives answers in order.
func NewScripted(answers ...Answer) *Scripted {
	return &Scripted{answers: answers, arrived: make(chan struct{})}
}

func (s *Scripted) Name() string {
	if s.ProviderName != "" {
		return s.ProviderName
	}
	return "scripted"
}

// Then appends answers to the list.
func (s *Scripted) Then(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

// Remaining returns the number of answers that have not been given.
func (s *Scripted) Remaining() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers)
}

// Requests returns the requests so far, oldest first.
func (s *Scripted) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await waits until at least n requests were made, or returns an error when ctx ends.
func (s *Scripted) Await(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, next := len(s.requests), s.arrived
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("await request %d, have %d: %w", n, have, context.Cause(ctx))
		}
	}
}

func (s *Scripted) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if len(r.Prefill) == 0 && (r.Transcript == nil || r.Transcript.Len() == 0) ||
			r.Transcript != nil && r.Transcript.Len() > 0 && r.Transcript.At(r.Transcript.Len()-1).Role != llm.User {
			yield(nil, &llm.Error{Class: llm.Format, Provider: s.Name(), Message: "the last message must be the user's"})
			return
		}
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		a, ok := s.nextAnswer(r)
		if a.Started != nil {
			close(a.Started)
		}
		if !ok {
			yield(nil, &llm.Error{Class: llm.Format, Provider: s.Name(), Message: "the script has no answer left"})
			return
		}
		p := player{ctx: ctx, yield: yield, delay: a.Delay}
		err := p.play(a)
		switch {
		case errors.Is(err, errStopped):
		case err != nil:
			yield(nil, err)
		case a.Err != nil:
			yield(nil, s.withName(a.Err))
		case !a.Cut:
			yield(llm.Done{Message: a.message(), Stop: a.stop(), Usage: a.usage(), Model: r.Model, Provider: s.Name()}, nil)
		}
	}
}

// withName returns err with the provider's name, if it is an *llm.Error without one.
func (s *Scripted) withName(err error) error {
	e, ok := err.(*llm.Error) //nolint:errorlint // a wrapped error already has a name
	if !ok || e.Provider != "" {
		return err
	}
	own := *e
	own.Provider = s.Name()
	return &own
}

func (s *Scripted) nextAnswer(r *llm.Request) (Answer, bool) {
	rec := Recorded{Request: *r, At: time.Now()}
	rec.Tools, rec.Prefill = slices.Clone(r.Tools), slices.Clone(r.Prefill)
	if r.Transcript != nil {
		rec.Messages = slices.Clone(r.Transcript.Since(0))
	}
	rec.Transcript = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, rec)
	close(s.arrived)
	s.arrived = make(chan struct{})
	var a Answer
	switch {
	case len(s.answers) > 0:
		a, s.answers = s.answers[0], s.answers[1:]
	case s.Default != nil:
		a = s.Default(rec)
	default:
		return Answer{}, false
	}
	a.Calls = slices.Clone(a.Calls)
	for i := range a.Calls {
		s.calls++
		if a.Calls[i].ID == "" {
			a.Calls[i].ID = fmt.Sprintf("call_%d", s.calls)
		}
	}
	return a, true
}

// errStopped reports that the reader of the stream has stopped.
var errStopped = errors.New("llmtest: the reader stopped")

type player struct {
	ctx   context.Context
	yield func(llm.Event, error) bool
	delay time.Duration
}

func (p player) play(a Answer) error {
	if err := p.wait(a.Wait); err != nil {
		return err
	}
	for _, n := range a.Notices {
		if err := p.send(n); err != nil {
			return err
		}
	}
	for _, s := range pieces(a.Thinking) {
		if err := p.send(llm.ThinkingDelta(s)); err != nil {
			return err
		}
	}
	for _, s := range pieces(a.Text) {
		if err := p.send(llm.TextDelta(s)); err != nil {
			return err
		}
	}
	if err := p.wait(a.Hold); err != nil {
		return err
	}
	for _, c := range a.Calls {
		if err := p.send(llm.ToolStart{Name: c.Name}); err != nil {
			return err
		}
	}
	return nil
}

func (p player) send(e llm.Event) error {
	if p.delay > 0 {
		t := time.NewTimer(p.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.ctx.Done():
		}
	}
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	if !p.yield(e, nil) {
		return errStopped
	}
	return nil
}

func (p player) wait(c <-chan struct{}) error {
	if c == nil {
		return nil
	}
	select {
	case <-c:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// pieces splits s into two, between characters.
func pieces(s string) []string {
	if s == "" {
		return nil
	}
	cut := len(s) / 2
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	if cut == 0 {
		return []string{s}
	}
	return []string{s[:cut], s[cut:]}
}

func (a Answer) message() llm.Message {
	m := llm.Message{Role: llm.Assistant, Raw: a.Raw, Dialect: a.Dialect}
	if a.Thinking != "" {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Thinking, Text: a.Thinking})
	}
	if a.Text != "" {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Text, Text: a.Text})
	}
	for _, c := range a.Calls {
		in := json.RawMessage(c.Input)
		if c.Input == "" {
			in = json.RawMessage("{}")
		}
		b := llm.Block{Type: llm.ToolUse, ID: c.ID, Name: c.Name, Input: in}
		if !llm.ValidInput(in) {
			b.Input, b.Text = json.RawMessage("{}"), c.Input
		}
		m.Blocks = append(m.Blocks, b)
	}
	return m
}

func (a Answer) stop() llm.StopReason {
	switch {
	case a.Stop != "":
		return a.Stop
	case len(a.Calls) > 0:
		return llm.CallTools
	}
	return llm.EndTurn
}

func (a Answer) usage() llm.Usage {
	if a.Usage != (llm.Usage{}) {
		return a.Usage
	}
	return llm.Usage{Input: 10, Output: (len(a.Text) + len(a.Thinking) + 3) / 4}
}
