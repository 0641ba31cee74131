package agent

import (
	"encoding/json"
	"fmt"

	"hermesd/agent/llm"
)

// A StepKind is the kind of a Step.
type StepKind string

// The kinds of step, and which fields they use.
const (
	// StepAnswer is a complete model answer: Messages, Bad, Text, Stop, Usage,
	// Final.
	StepAnswer StepKind = "answer"
	// StepEmpty is an empty answer that is requested again: Usage.
	StepEmpty StepKind = "empty"
	// StepStart means that a call that may happen only once is about to run:
	// Call.
	StepStart StepKind = "start"
	// StepResult is the result of a call: Call, Result.
	StepResult StepKind = "result"
	// StepSteer holds what users wrote between two tool batches: Blocks.
	StepSteer StepKind = "steer"
	// StepCompaction is a compaction: Compaction, and Length, the number of
	// messages before it.
	StepCompaction StepKind = "compact"
)

// stepVersion is the version of the stored form of steps. A change of the form
// must increase it and keep reading the old ones. Version 1 has no Masked.
const stepVersion = 2

// A Step is one completed part of a turn, or the start of a call that may
// happen only once. It is stored as JSON; consumers must not interpret it.
type Step struct {
	Version int      `json:"v"`
	Kind    StepKind `json:"kind"`

	// Messages are appended to the transcript: the model's answer, and the
	// request to continue if there was one.
	Messages []llm.Message `json:"messages,omitempty"`
	// Bad maps the IDs of calls that cannot be run to the reason shown to the
	// model.
	Bad map[string]string `json:"bad,omitempty"`
	// Masked holds the IDs of the calls whose input is not what the model sent,
	// because secrets in it are masked. Only the run that received the answer
	// can run them.
	Masked     []string       `json:"masked,omitempty"`
	Text       string         `json:"text,omitempty"` // the part of the final text
	Stop       llm.StopReason `json:"stop,omitempty"`
	Usage      llm.Usage      `json:"usage,omitzero"`
	Final      bool           `json:"final,omitempty"`
	OverBudget bool           `json:"over,omitempty"`  // the summary of a turn that used all its calls
	Empty      bool           `json:"empty,omitempty"` // the second empty answer

	Call   string      `json:"call,omitempty"`
	Result *llm.Block  `json:"result,omitempty"`
	Blocks []llm.Block `json:"blocks,omitempty"`

	Compaction *Compaction `json:"pass,omitempty"`
	Length     int         `json:"length,omitempty"`
	Reason     string      `json:"why,omitempty"` // for a compaction
}

// A batch holds the calls of one answer until all results are in the
// transcript.
type batch struct {
	calls    []llm.Block
	masked   map[string]json.RawMessage // inputs that are masked in calls, as the model sent them; nil if not known any more
	invalid  map[string]string
	started  map[string]bool
	results  map[string]llm.Block
	steered  bool
	steering []llm.Block
}

func newBatch(calls []llm.Block, bad map[string]string, masked []string) *batch {
	b := &batch{calls: calls, masked: map[string]json.RawMessage{}, invalid: bad, started: map[string]bool{}, results: map[string]llm.Block{}}
	for _, id := range masked {
		b.masked[id] = nil
	}
	for _, c := range calls {
		if reason, ok := bad[c.ID]; ok {
			b.results[c.ID] = toolFailure(c.ID, reason)
		}
	}
	return b
}

// keepInputs keeps the inputs of the calls that are masked in b, as the model
// sent them.
func (b *batch) keepInputs(sent []llm.Block) {
	for _, c := range sent {
		if _, ok := b.masked[c.ID]; ok {
			b.masked[c.ID] = c.Input
		}
	}
}

// inputOf returns the input of a call as the model sent it. ok is false if only
// its masked form is known, because the run that received it died.
func (b *batch) inputOf(c llm.Block) (input json.RawMessage, ok bool) {
	if sent, masked := b.masked[c.ID]; masked {
		return sent, sent != nil
	}
	return c.Input, true
}

func (b *batch) hasCall(id string) bool {
	for _, c := range b.calls {
		if c.ID == id {
			return true
		}
	}
	return false
}

func (b *batch) isComplete() bool { return len(b.results) == len(b.calls) }

// resultMessage returns the results in the order of the calls, followed by the
// user's steering messages.
func (b *batch) resultMessage() llm.Message {
	m := llm.Message{Role: llm.User}
	for _, c := range b.calls {
		m.Blocks = append(m.Blocks, b.results[c.ID])
	}
	truncateResults(m.Blocks)
	m.Blocks = append(m.Blocks, b.steering...)
	return m
}

// apply makes a step part of the run. A live run and a resumed run reach the
// same state through it.
func (r *run) apply(s Step) error {
	if s.Version < 1 || s.Version > stepVersion {
		return fmt.Errorf("%w: unknown version %d", ErrSteps, s.Version)
	}
	switch s.Kind {
	case StepAnswer:
		return r.applyAnswer(s)
	case StepEmpty:
		r.usage = r.usage.Add(s.Usage)
		r.emptyAnswers = 1
		return r.closeBatch()
	case StepStart, StepResult:
		if r.batch == nil || !r.batch.hasCall(s.Call) {
			return fmt.Errorf("%w: unknown call %q", ErrSteps, s.Call)
		}
		if s.Kind == StepStart {
			r.batch.started[s.Call] = true
			return nil
		}
		if s.Result == nil || s.Result.Type != llm.ToolResult || s.Result.ID != s.Call {
			return fmt.Errorf("%w: result of call %q is corrupt", ErrSteps, s.Call)
		}
		r.batch.results[s.Call] = *s.Result
		return nil
	case StepCompaction:
		return r.applyCompaction(s)
	case StepSteer:
		if r.batch == nil || !r.batch.isComplete() {
			return fmt.Errorf("%w: steering before all results", ErrSteps)
		}
		r.batch.steered, r.batch.steering = true, s.Blocks
		return nil
	}
	return fmt.Errorf("%w: unknown kind %q", ErrSteps, s.Kind)
}

func (r *run) applyAnswer(s Step) error {
	if err := r.closeBatch(); err != nil {
		return err
	}
	if len(s.Messages) == 0 || s.Messages[0].Role != llm.Assistant || r.final != nil {
		return fmt.Errorf("%w: unexpected answer", ErrSteps)
	}
	r.t.Transcript.Append(s.Messages...)
	r.usage = r.usage.Add(s.Usage)
	calls := s.Messages[0].ToolUses()
	r.emptyAnswers = 0
	switch {
	case len(calls) > 0:
		r.batch = newBatch(calls, s.Bad, s.Masked)
		r.answerText, r.continuations = "", 0
		if len(s.Bad) > 0 {
			r.invalidAnswers++
		} else {
			r.invalidAnswers = 0
		}
	case s.Empty:
		r.emptyAnswers = 2
	default:
		r.answerText += s.Text
		r.continuations++
	}
	if s.Final {
		r.final = &Final{Text: visibleText(r.answerText), Stop: s.Stop, OverBudget: s.OverBudget}
	}
	return nil
}

// closeBatch moves the results of a pending batch into the transcript.
func (r *run) closeBatch() error {
	if r.batch == nil {
		return nil
	}
	if !r.batch.isComplete() {
		return fmt.Errorf("%w: answer before all results", ErrSteps)
	}
	r.t.Transcript.Append(r.batch.resultMessage())
	r.batch = nil
	return nil
}
