package agent

import (
	"context"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
)

// showText emits text.
func (r *run) showText(text string) error {
	if text == "" {
		return nil
	}
	r.shownText.WriteString(text)
	return r.emit(Text(text))
}

// retract retracts what the current call showed. Earlier parts of the same
// answer are shown again.
func (r *run) retract() error {
	var s prompt.Scrubber
	return r.syncShown(s.Write(r.answerText))
}

// syncShown makes the text shown since the last tool call equal to text, which
// may be masked already; the consumer masks what is shown.
func (r *run) syncShown(text string) error {
	text = r.a.mask(text)
	rest, ok := strings.CutPrefix(text, r.a.mask(r.shownText.String()))
	if !ok {
		r.shownText.Reset()
		if err := r.emit(Retracted{}); err != nil {
			return err
		}
		rest = text
	}
	return r.showText(rest)
}

// An answerStream shows one answer while it arrives.
type answerStream struct {
	r        *run
	scrubber prompt.Scrubber
	size     int
}

// rewind restarts the answer after the parts that are in the transcript.
func (s *answerStream) rewind() {
	s.scrubber, s.size = prompt.Scrubber{}, 0
	s.scrubber.Write(s.r.answerText)
}

// read returns the complete answer.
func (s *answerStream) read(ctx context.Context, q *llm.Request) (llm.Done, error) {
	for e, err := range s.r.provider.Stream(ctx, q) {
		if err != nil {
			return llm.Done{}, err
		}
		if done, ok := e.(llm.Done); ok {
			return done, nil
		}
		if err := s.handleEvent(e); err != nil {
			return llm.Done{}, err
		}
		if ctx.Err() != nil {
			return llm.Done{}, context.Cause(ctx)
		}
	}
	return llm.Done{}, s.invalidResponse("stream ended before the answer was complete")
}

func (s *answerStream) invalidResponse(what string) error {
	return &llm.Error{Class: llm.InvalidResponse, Provider: s.r.provider.Name(), Message: what}
}

func (s *answerStream) handleEvent(e llm.Event) error {
	switch e := e.(type) {
	case llm.TextDelta:
		if s.size += len(e); s.size > maxAnswerBytes {
			return s.invalidResponse("answer exceeds the size limit")
		}
		return s.r.showText(s.scrubber.Write(string(e)))
	case llm.ThinkingDelta:
		if s.size += len(e); s.size > maxAnswerBytes {
			return s.invalidResponse("answer exceeds the size limit")
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
