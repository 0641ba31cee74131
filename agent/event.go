package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

// An Event reports progress of a run. It is one of Text, Thinking, Retracted,
// Notice, ToolCall, ToolFinished, Record, Compacted, ContextLengthLearned, Call
// and Final.
type Event interface{ event() }

// Text is a piece of the model's answer, as it may be shown. The pieces since
// the last ToolCall or Retracted form the current answer so far.
type Text string

// Thinking is a piece of the model's reasoning.
type Thinking string

// Retracted invalidates all Text since the last ToolCall. The part that remains
// valid is emitted again.
type Retracted struct{}

// A NoticeKind is the kind of a Notice.
type NoticeKind string

// The kinds of notice.
const (
	Retry        NoticeKind = "retry"    // the model call is retried
	Fallback     NoticeKind = "fallback" // another model takes over
	Budget       NoticeKind = "budget"   // only the call for a summary is left
	Empty        NoticeKind = "empty"    // the answer was empty; it is requested again
	Continue     NoticeKind = "continue" // the answer was cut off; the model is asked to continue
	ContextFull  NoticeKind = "crowded"  // the context could not be compacted
	NoSummary    NoticeKind = "plain"    // no model could write the summary; the context is compacted without one
	ReduceOutput NoticeKind = "shorten"  // the requested answer length exceeds the model's limit; the limit is requested
)

// A Notice reports what was done to obtain an answer.
type Notice struct {
	Kind     NoticeKind
	Retry    int           // number of the next retry, from 1
	After    time.Duration // delay before it
	Fallback string        // the next model, as "provider/model"
	Err      error         // the cause; nil if there is none
}

// String returns a short description, for logs.
func (n Notice) String() string {
	s := string(n.Kind)
	switch n.Kind {
	case Retry:
		s = fmt.Sprintf("retry %d after %v", n.Retry, n.After)
	case Fallback:
		s = "fallback to " + n.Fallback
	}
	if n.Err != nil {
		s += ": " + n.Err.Error()
	}
	return s
}

// ToolCall is emitted before a tool runs.
type ToolCall struct {
	ID, Name string
	Input    json.RawMessage
	Effect   tool.Effect
}

// ToolFinished is emitted after a tool has run.
type ToolFinished struct {
	ID, Name string
	Result   string // the text that the model receives
	Failed   bool
	Took     time.Duration
}

// Record asks the consumer to store Step. It must be on disk before the
// consumer asks for the next event: this makes a turn resumable and prevents a
// tool call from happening twice.
type Record struct{ Step Step }

// Compacted reports that the transcript was compacted: the messages of
// Compaction replace the Length messages that it had.
type Compacted struct {
	Compaction
	Length int
	// Replaced holds the messages that were replaced.
	Replaced []llm.Message
	// Prefix is used by the rest of the run: it includes the note of the
	// compaction and the changes of ContextWindow.Refresh.
	Prefix prompt.Prefix
	// Reason is why the prefix of the next call differs: "compression" or
	// "hygiene".
	Reason string
}

// ContextLengthLearned reports the context length of a model, taken from an
// error of its provider.
type ContextLengthLearned struct {
	Provider, Model string
	Window          int
}

// Call reports a completed model call.
type Call struct {
	Model, Provider string
	Usage           llm.Usage
	Took            time.Duration
	Stop            llm.StopReason
	// Request is the request that was sent; its transcript stays as it was sent
	// until the consumer asks for the next event.
	Request *llm.Request
}

// Final is the last event of a run that produced an answer.
type Final struct {
	Text string // as it may be shown, without surrounding white space
	// Stop is EndTurn, or Length if the answer remained cut off.
	Stop llm.StopReason
	// Usage is the sum over all model calls of the turn, including those of
	// earlier runs that died.
	Usage llm.Usage
	// OverBudget reports whether the answer is the summary of a turn that had
	// used all its calls.
	OverBudget bool
}

func (Text) event()                 {}
func (Thinking) event()             {}
func (Retracted) event()            {}
func (Notice) event()               {}
func (ToolCall) event()             {}
func (ToolFinished) event()         {}
func (Record) event()               {}
func (Call) event()                 {}
func (Compacted) event()            {}
func (ContextLengthLearned) event() {}
func (Final) event()                {}
