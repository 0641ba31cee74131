// Package observe has the words in which the road tells those who watch it — who
// count, or draw traces — what happens. A watcher is told on the goroutine to which
// it happened: it must not wait, and nothing depends on it. What it is told names
// turns, never people, chats or what they have said.
package observe

import (
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
)

// A Func is told what happens. It may be called from any goroutine.
type Func func(Event)

// Emit tells f, unless it is nil.
func (f Func) Emit(e Event) {
	if f != nil {
		f(e)
	}
}

// An Event is one of Accepted, Began, Called, Stumbled, Used, Sensed, Compacted,
// Ended, Attempted and Unrun.
type Event interface{ event() }

// A AcceptResult is what became of an event that a platform has offered.
type AcceptResult string

// The verdicts.
const (
	Accepted    AcceptResult = "accepted"
	Duplicate   AcceptResult = "duplicate" // it was offered before
	Denied      AcceptResult = "refused"   // by a rule
	QueueFull   AcceptResult = "overflow"  // too many wait in its conversation
	StoreFailed AcceptResult = "unstored"  // the store did not take it; the platform offers it again
)

// AcceptResults returns all of them.
func AcceptResults() []AcceptResult {
	return []AcceptResult{Accepted, Duplicate, Denied, QueueFull, StoreFailed}
}

// EventReceived tells of an event that a platform has offered.
type EventReceived struct {
	Platform chat.Platform
	Result   AcceptResult
	Rule     string // of Refused
}

// A Kind says what a turn works on.
type Kind string

// The kinds of turn.
const (
	Message   Kind = "message"
	Command   Kind = "command"
	Scheduled Kind = "scheduled"
)

// Kinds returns all of them.
func Kinds() []Kind { return []Kind{Message, Command, Scheduled} }

// TurnStarted tells that a turn begins. One that was cut short begins again under the
// same name.
type TurnStarted struct {
	Turn     string
	Kind     Kind
	Platform chat.Platform
	Accepted time.Time // the oldest of what it works on
	At       time.Time
	Resumed  bool // an earlier process died in it
}

// A Result is how a turn ended.
type Result string

// The results.
const (
	Replied    Result = "replied"
	Silent     Result = "silent"
	Failed     Result = "failed"
	Cancelled  Result = "cancelled"  // by a person
	Superseded Result = "superseded" // a newer message is answered in its place
	Released   Result = "released"   // nothing is committed; what it worked on waits again
)

// Results returns all of them.
func Results() []Result {
	return []Result{Replied, Silent, Failed, Cancelled, Superseded, Released}
}

// TurnEnded tells that a turn is over. Rows of what it says may have been attempted
// before.
type TurnEnded struct {
	TurnStarted
	Result Result
	Took   time.Duration
}

// ModelCalled tells of a model call of a turn that was answered.
type ModelCalled struct {
	Turn, Provider, Model string
	Usage                 llm.Usage
	Stop                  llm.StopReason
	Took                  time.Duration // up to now, with tries that failed
}

// ModelRetried tells of a model call of a turn that failed and is tried again.
type ModelRetried struct {
	Turn     string
	Class    llm.Class // "" if it is not known
	Fallback string    // "provider/model" that takes over; "" for the same again
}

// ToolCalled tells of a tool call that is over, also of a sub-agent's.
type ToolCalled struct {
	Turn, Tool string
	Failed     bool
	Took       time.Duration // up to now
}

// A MediaTask is a service that turns voices and pictures into words, or words into a
// voice.
type MediaTask string

// The senses.
const (
	Transcription    MediaTask = "hearing"  // what is said in a recording
	ImageDescription MediaTask = "seeing"   // what a picture shows, for a model that sees none
	SpeechSynthesis  MediaTask = "speaking" // a recording of an answer
)

// MediaTasks returns all of them.
func MediaTasks() []MediaTask { return []MediaTask{Transcription, ImageDescription, SpeechSynthesis} }

// MediaProcessed tells of a call of such a service that is over.
type MediaProcessed struct {
	Task   MediaTask
	Failed bool
	Took   time.Duration // up to now
}

// Compacted tells of a pass that made a conversation smaller, or could not.
type Compacted struct {
	Turn, Engine  string
	Reason        string // "compression", "hygiene"
	Failed        bool
	Before, After int // tokens, estimated
}

// DeliveryAttempted tells what came of one attempt to deliver a row of the outbox, once
// that is stored.
type DeliveryAttempted struct {
	Turn        string // "" for what the daemon says by itself
	Row         string
	Platform    chat.Platform
	Role        string // reply, preview, notice
	State       string // sent, known_not_sent, uncertain, dead
	RateLimited bool   // nothing was sent: a limit of the platform is waited for
	Attempt     int
	Took        time.Duration // up to now
}

// OccurrencesSkipped tells of slots of scheduled prompts that do not run.
type OccurrencesSkipped struct {
	State string // skipped, missed
	Count int
}

func (EventReceived) event()      {}
func (TurnStarted) event()        {}
func (ModelCalled) event()        {}
func (ModelRetried) event()       {}
func (ToolCalled) event()         {}
func (MediaProcessed) event()     {}
func (Compacted) event()          {}
func (TurnEnded) event()          {}
func (DeliveryAttempted) event()  {}
func (OccurrencesSkipped) event() {}
