package agent

import (
	"fmt"

	"hermesd/agent/llm"
)

// A StepKind says what a Step records.
type StepKind string

// The kinds of step, and which fields they use.
const (
	// StepAnswer is a completed answer of the model: Messages, Bad, Text, Stop,
	// Usage, Final.
	StepAnswer StepKind = "answer"
	// StepEmpty is an answer of nothing that is asked for again: Usage.
	StepEmpty StepKind = "empty"
	// StepStart says that a call that may happen only once is about to run: Call.
	StepStart StepKind = "start"
	// StepResult is the result of a call: Call, Result.
	StepResult StepKind = "result"
	// StepSteer is what people said between two tools: Blocks.
	StepSteer StepKind = "steer"
	// StepCompaction is a compaction: Pass, and Length, the transcript's before it.
	StepCompaction StepKind = "compact"
)

// stepVersion is that of the form of steps. Whoever changes the form counts it
// up and keeps reading the old ones.
const stepVersion = 1

// A Step is one completed piece of a turn, or the start of a call that may
// happen only once. It is kept as JSON; a consumer does not look inside.
type Step struct {
	Version int      `json:"v"`
	Kind    StepKind `json:"kind"`

	// Messages are appended to the transcript: the model's, and ours if it was
	// asked to go on.
	Messages []llm.Message `json:"messages,omitempty"`
	// Bad maps ids of calls that cannot be run to what the model is told.
	Bad        map[string]string `json:"bad,omitempty"`
	Text       string            `json:"text,omitempty"` // what the answer adds to the final text
	Stop       llm.StopReason    `json:"stop,omitempty"`
	Usage      llm.Usage         `json:"usage,omitzero"`
	Final      bool              `json:"final,omitempty"`
	OverBudget bool              `json:"over,omitempty"`  // it is the summary of a turn over its budget
	Empty      bool              `json:"empty,omitempty"` // it was empty for the second time

	Call   string      `json:"call,omitempty"`
	Result *llm.Block  `json:"result,omitempty"`
	Blocks []llm.Block `json:"blocks,omitempty"`

	Compaction *Compaction `json:"pass,omitempty"`
	Length     int         `json:"length,omitempty"`
	Reason     string      `json:"why,omitempty"` // of a compaction
}

// A batch is the calls of one answer until all of their results are in the
// transcript.
type batch struct {
	calls   []llm.Block
	bad     map[string]string
	started map[string]bool
	results map[string]llm.Block
	steered bool
	steer   []llm.Block
}

func newBatch(calls []llm.Block, bad map[string]string) *batch {
	b := &batch{calls: calls, bad: bad, started: map[string]bool{}, results: map[string]llm.Block{}}
	for _, c := range calls {
		if why, ok := bad[c.ID]; ok {
			b.results[c.ID] = failure(c.ID, why)
		}
	}
	return b
}

func (b *batch) has(id string) bool {
	for _, c := range b.calls {
		if c.ID == id {
			return true
		}
	}
	return false
}

func (b *batch) complete() bool { return len(b.results) == len(b.calls) }

// message returns the results in the order of the calls, and behind them what
// people said.
func (b *batch) message() llm.Message {
	m := llm.Message{Role: llm.User}
	for _, c := range b.calls {
		m.Blocks = append(m.Blocks, b.results[c.ID])
	}
	shrink(m.Blocks)
	m.Blocks = append(m.Blocks, b.steer...)
	return m
}

// apply makes a step part of the run. A live run and a resumed one come to the
// same state by it.
func (r *run) apply(s Step) error {
	if s.Version != stepVersion {
		return fmt.Errorf("%w: version %d is unknown", ErrSteps, s.Version)
	}
	switch s.Kind {
	case StepAnswer:
		return r.applyAnswer(s)
	case StepEmpty:
		r.usage = r.usage.Add(s.Usage)
		r.empties = 1
		return r.closeBatch()
	case StepStart, StepResult:
		if r.batch == nil || !r.batch.has(s.Call) {
			return fmt.Errorf("%w: call %q was not made", ErrSteps, s.Call)
		}
		if s.Kind == StepStart {
			r.batch.started[s.Call] = true
			return nil
		}
		if s.Result == nil || s.Result.Type != llm.ToolResult || s.Result.ID != s.Call {
			return fmt.Errorf("%w: the result of call %q is damaged", ErrSteps, s.Call)
		}
		r.batch.results[s.Call] = *s.Result
		return nil
	case StepCompaction:
		return r.applyPass(s)
	case StepSteer:
		if r.batch == nil || !r.batch.complete() {
			return fmt.Errorf("%w: steering without results", ErrSteps)
		}
		r.batch.steered, r.batch.steer = true, s.Blocks
		return nil
	}
	return fmt.Errorf("%w: kind %q is unknown", ErrSteps, s.Kind)
}

func (r *run) applyAnswer(s Step) error {
	if err := r.closeBatch(); err != nil {
		return err
	}
	if len(s.Messages) == 0 || s.Messages[0].Role != llm.Assistant || r.final != nil {
		return fmt.Errorf("%w: an answer out of place", ErrSteps)
	}
	r.t.Transcript.Append(s.Messages...)
	r.usage = r.usage.Add(s.Usage)
	calls := s.Messages[0].ToolUses()
	r.empties = 0
	switch {
	case len(calls) > 0:
		r.batch = newBatch(calls, s.Bad)
		r.said, r.continued = "", 0
		if len(s.Bad) > 0 {
			r.invalidAnswers++
		} else {
			r.invalidAnswers = 0
		}
	case s.Empty:
		r.empties = 2
	default:
		r.said += s.Text
		r.continued++
	}
	if s.Final {
		r.final = &Final{Text: visible(r.said), Stop: s.Stop, OverBudget: s.OverBudget}
	}
	return nil
}

// closeBatch moves the results, if there are any, into the transcript.
func (r *run) closeBatch() error {
	if r.batch == nil {
		return nil
	}
	if !r.batch.complete() {
		return fmt.Errorf("%w: an answer before all results", ErrSteps)
	}
	r.t.Transcript.Append(r.batch.message())
	r.batch = nil
	return nil
}
