package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

// An Event tells the consumer of a run what happens. It is one of Text,
// Thinking, Retracted, Notice, ToolCall, ToolDone, Record, Call and Final.
type Event interface{ event() }

// Text is more of what the model says, as it may be shown. The pieces since the
// last ToolCall or Retracted are what the present answer has said so far.
type Text string

// Thinking is more of the model's reasoning, for those who asked to see it.
type Thinking string

// Retracted says that all Text since the last ToolCall is void. What of it
// stays is said again.
type Retracted struct{}

// A NoticeKind says what a Notice is about.
type NoticeKind string

// The kinds of notice.
const (
	Retry        NoticeKind = "retry"    // the model call is tried again
	Fallback     NoticeKind = "fallback" // another model takes over
	Budget       NoticeKind = "budget"   // no call is left but the one for a summary
	Empty        NoticeKind = "empty"    // the answer was empty; it is asked for again
	Continue     NoticeKind = "continue" // the answer was cut off; the model is asked to go on
	ContextFull  NoticeKind = "crowded"  // the context could not be made smaller
	ReduceOutput NoticeKind = "shorten"  // the model may say less than was asked for; it is asked for that
)

// A Notice tells what was done to get an answer.
type Notice struct {
	Kind     NoticeKind
	Retry    int           // number of the try that follows, from 1
	After    time.Duration // how long is waited before it
	Fallback string        // "provider/model" that takes over
	Err      error         // why; nil if there is no error
}

// String says the notice in a few words, for logs.
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

// ToolCall says that a tool is about to run.
type ToolCall struct {
	ID, Name string
	Input    json.RawMessage
	Effect   tool.Effect
}

// ToolFinished says that a tool has run.
type ToolFinished struct {
	ID, Name string
	Result   string // as the model will read it
	Failed   bool
	Took     time.Duration
}

// Record asks the consumer to keep Step. It must be on disk before the consumer
// asks for the next event: that is what makes a turn resumable, and a tool call
// happen only once.
type Record struct{ Step Step }

// Compacted tells that the transcript was made smaller: where it had Length
// messages, those of Pass stand now.
type Compacted struct {
	Compaction
	Length int
	// Replaced are the messages that stood there.
	Replaced []llm.Message
	// Prefix is what the run goes on with: with the note of the pass, and with what
	// Window.Refresh made of it.
	Prefix prompt.Prefix
	// Reason is the reason for which the prefix of the next call differs:
	// "compression", "hygiene".
	Reason string
}

// ContextLengthLearned tells of the length of a model's context, which an error named.
type ContextLengthLearned struct {
	Provider, Model string
	Window          int
}

// Call tells of a completed model call.
type Call struct {
	Model, Provider string
	Usage           llm.Usage
	Took            time.Duration
	Stop            llm.StopReason
	// Request is what was sent; its transcript is as it was sent until the
	// consumer asks for the next event.
	Request *llm.Request
}

// Final is the last event of a run that came to an answer.
type Final struct {
	Text string // as it may be shown, without space around it
	// Stop is EndTurn; or Length if the answer stayed cut off.
	Stop llm.StopReason
	// Usage is the sum over all model calls of the turn, those of earlier, dead
	// runs included.
	Usage llm.Usage
	// OverBudget says that the answer is the summary of a turn that had no call
	// left.
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
