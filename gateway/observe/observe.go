// Package observe defines the events that metrics and traces subscribe to. An observer
// is a Func. It runs on the goroutine that emits the event and must not block; nothing
// depends on what it does. Events carry turn IDs, never user IDs, chat IDs or message
// text.
package observe

import (
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
)

// A Func receives events. It may be called from any goroutine, also concurrently.
type Func func(Event)

// An Event is one of EventReceived, TurnStarted, ModelCalled, ModelRetried, ToolCalled,
// MediaProcessed, Compacted, TurnEnded, DeliveryAttempted and OccurrencesSkipped.
type Event interface{ event() }

// An AcceptResult is the result of accepting an event of a platform.
type AcceptResult string

// The results of accepting an event.
const (
	Accepted    AcceptResult = "accepted"
	Duplicate   AcceptResult = "duplicate"    // it was received before
	Denied      AcceptResult = "denied"       // by an access rule
	QueueFull   AcceptResult = "queue_full"   // too many messages wait in its conversation
	StoreFailed AcceptResult = "store_failed" // it could not be stored; the platform sends it again
)

// AcceptResults returns all AcceptResults.
func AcceptResults() []AcceptResult {
	return []AcceptResult{Accepted, Duplicate, Denied, QueueFull, StoreFailed}
}

// EventReceived is emitted when an event of a platform was accepted or rejected.
type EventReceived struct {
	Platform chat.Platform
	Result   AcceptResult
	Rule     string // of Denied; else ""
}

// A Kind is the kind of input of a turn.
type Kind string

// The kinds of turn.
const (
	Message   Kind = "message"
	Command   Kind = "command"
	Scheduled Kind = "scheduled"
)

// Kinds returns all Kinds.
func Kinds() []Kind { return []Kind{Message, Command, Scheduled} }

// TurnStarted is emitted at the start of a turn. A resumed turn starts again with the
// same ID.
type TurnStarted struct {
	Turn     string
	Kind     Kind
	Platform chat.Platform
	Accepted time.Time // of the oldest entry of the turn
	At       time.Time
	Resumed  bool // an earlier process died during the turn
}

// A Result is the result of a turn.
type Result string

// The results.
const (
	Replied    Result = "replied"
	Silent     Result = "silent"
	Failed     Result = "failed"
	Cancelled  Result = "cancelled"  // by a user
	Superseded Result = "superseded" // merged into a turn with a newer message
	Released   Result = "released"   // nothing was committed; its entries wait again
)

// Results returns all Results.
func Results() []Result {
	return []Result{Replied, Silent, Failed, Cancelled, Superseded, Released}
}

// TurnEnded is emitted at the end of a turn. Delivery attempts of its rows may be
// reported before.
type TurnEnded struct {
	TurnStarted
	Result Result
	Took   time.Duration
}

// ModelCalled is emitted after a successful model call of a turn.
type ModelCalled struct {
	Turn, Provider, Model string
	Usage                 llm.Usage
	Stop                  llm.StopReason
	Took                  time.Duration // up to the event, including failed tries
}

// ModelRetried is emitted when a failed model call of a turn is retried.
type ModelRetried struct {
	Turn     string
	Class    llm.Class // "" if unknown
	Fallback string    // the next model as "provider/model"; "" for the same one
}

// ErrorClass returns the name of c in metrics and traces. It differs from the value
// of c where models see that value.
func ErrorClass(c llm.Class) string {
	if c == llm.InvalidResponse {
		return "invalid_response"
	}
	return string(c)
}

// ToolCalled is emitted after a tool call, including those of sub-agents.
type ToolCalled struct {
	Turn, Tool string
	Failed     bool
	Took       time.Duration // up to the event
}

// A MediaTask is a conversion of a recording or an image to text, or of text to a
// recording.
type MediaTask string

// The media tasks.
const (
	Transcription    MediaTask = "transcription"     // text of a recording
	ImageDescription MediaTask = "image_description" // description of an image for a model without vision
	SpeechSynthesis  MediaTask = "speech_synthesis"  // recording of an answer
)

// MediaTasks returns all MediaTasks.
func MediaTasks() []MediaTask { return []MediaTask{Transcription, ImageDescription, SpeechSynthesis} }

// MediaProcessed is emitted after a media task.
type MediaProcessed struct {
	Task   MediaTask
	Failed bool
	Took   time.Duration // up to the event
}

// Compacted is emitted when a compaction was adopted by a turn, or failed.
type Compacted struct {
	Turn, Engine  string
	Reason        string // "compression", "hygiene"
	Failed        bool
	Before, After int // tokens, estimated
}

// DeliveryAttempted is emitted after a delivery attempt, once its settlement is stored.
type DeliveryAttempted struct {
	Turn        string // "" for messages that belong to no turn
	Row         string
	Platform    chat.Platform
	Role        string // reply, preview, notice
	State       string // sent, known_not_sent, uncertain, dead
	RateLimited bool   // nothing was sent because of a rate limit
	Attempt     int
	Took        time.Duration // up to the event
}

// OccurrencesSkipped is emitted for occurrences of scheduled prompts that do not run.
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
