package agent

import (
	"context"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
)

// show lets text be seen.
func (r *run) show(text string) error {
	if text == "" {
		return nil
	}
	r.shown.WriteString(text)
	return r.emit(Text(text))
}

// retract takes back what the present call showed. What earlier parts of the
// same answer said stays, and is said again.
func (r *run) retract() error {
	var s prompt.Scrubber
	return r.settle(s.Write(r.said))
}

// settle makes what was shown since the last tool call agree with text.
func (r *run) settle(text string) error {
	rest, ok := strings.CutPrefix(text, r.shown.String())
	if !ok {
		r.shown.Reset()
		if err := r.emit(Retracted{}); err != nil {
			return err
		}
		rest = text
	}
	return r.show(rest)
}

// A stream shows one answer as it comes.
type stream struct {
	r     *run
	scrub prompt.Scrubber
	size  int
}

// rewind begins the answer anew, behind the parts that are in the transcript.
func (s *stream) rewind() {
	s.scrub, s.size = prompt.Scrubber{}, 0
	s.scrub.Write(s.r.said)
}

// read returns the whole answer.
func (s *stream) read(ctx context.Context, q *llm.Request) (llm.Done, error) {
	for e, err := range s.r.provider.Stream(ctx, q) {
		if err != nil {
			return llm.Done{}, err
		}
		if done, ok := e.(llm.Done); ok {
			return done, nil
		}
		if err := s.event(e); err != nil {
			return llm.Done{}, err
		}
		if ctx.Err() != nil {
			return llm.Done{}, context.Cause(ctx)
		}
	}
	return llm.Done{}, s.garbage("the answer has no end")
}

func (s *stream) garbage(what string) error {
	return &llm.Error{Class: llm.InvalidResponse, Provider: s.r.provider.Name(), Message: what}
}

func (s *stream) event(e llm.Event) error {
	switch e := e.(type) {
	case llm.TextDelta:
		if s.size += len(e); s.size > maxAnswer {
			return s.garbage("the answer does not end")
		}
		return s.r.show(s.scrub.Write(string(e)))
	case llm.ThinkingDelta:
		if s.size += len(e); s.size > maxAnswer {
			return s.garbage("the answer does not end")
		}
		return s.r.emit(Thinking(e))
	case llm.Notice:
		s.rewind()
		if err := s.r.retract(); err != nil {
			return err
		}
		n := Notice{Kind: Retry, Retry: e.Retry, After: e.After, Fallback: e.Fallback, Err: e.Err}
		if e.Fallback != "" {
			n.Kind = Fallback
		}
		return s.r.emit(n)
	}
	return nil
}
