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

// Tell tells f, unless it is nil.
func (f Func) Tell(e Event) {
	if f != nil {
		f(e)
	}
}

// An Event is one of Accepted, Began, Called, Stumbled, Used, Sensed, Compacted,
// Ended, Attempted and Unrun.
type Event interface{ event() }

// A Verdict is what became of an event that a platform has offered.
type Verdict string

// The verdicts.
const (
	Taken     Verdict = "accepted"
	Duplicate Verdict = "duplicate" // it was offered before
	Refused   Verdict = "refused"   // by a rule
	Overflow  Verdict = "overflow"  // too many wait in its conversation
	Unstored  Verdict = "unstored"  // the store did not take it; the platform offers it again
)

// Verdicts returns all of them.
func Verdicts() []Verdict { return []Verdict{Taken, Duplicate, Refused, Overflow, Unstored} }

// Accepted tells of an event that a platform has offered.
type Accepted struct {
	Platform chat.Platform
	Verdict  Verdict
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

// Began tells that a turn begins. One that was cut short begins again under the
// same name.
type Began struct {
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

// Ended tells that a turn is over. Rows of what it says may have been attempted
// before.
type Ended struct {
	Began
	Result Result
	Took   time.Duration
}

// Called tells of a model call of a turn that was answered.
type Called struct {
	Turn, Provider, Model string
	Usage                 llm.Usage
	Stop                  llm.StopReason
	Took                  time.Duration // up to now, with tries that failed
}

// Stumbled tells of a model call of a turn that failed and is tried again.
type Stumbled struct {
	Turn     string
	Class    llm.Class // "" if it is not known
	Fallback string    // "provider/model" that takes over; "" for the same again
}

// Used tells of a tool call that is over, also of a sub-agent's.
type Used struct {
	Turn, Tool string
	Failed     bool
	Took       time.Duration // up to now
}

// A Sense is a service that turns voices and pictures into words, or words into a
// voice.
type Sense string

// The senses.
const (
	Hearing  Sense = "hearing"  // what is said in a recording
	Seeing   Sense = "seeing"   // what a picture shows, for a model that sees none
	Speaking Sense = "speaking" // a recording of an answer
)

// Senses returns all of them.
func Senses() []Sense { return []Sense{Hearing, Seeing, Speaking} }

// Sensed tells of a call of such a service that is over.
type Sensed struct {
	Sense  Sense
	Failed bool
	Took   time.Duration // up to now
}

// Compacted tells of a pass that made a conversation smaller, or could not.
type Compacted struct {
	Turn, Engine  string
	Why           string // "compression", "hygiene"
	Failed        bool
	Before, After int // tokens, estimated
}

// Attempted tells what came of one attempt to deliver a row of the outbox, once
// that is stored.
type Attempted struct {
	Turn     string // "" for what the daemon says by itself
	Row      string
	Platform chat.Platform
	Role     string // reply, preview, notice
	State    string // sent, known_not_sent, uncertain, dead
	Held     bool   // nothing was sent: a limit of the platform is waited for
	Attempt  int
	Took     time.Duration // up to now
}

// Unrun tells of slots of scheduled prompts that do not run.
type Unrun struct {
	State string // skipped, missed
	Slots int
}

func (Accepted) event()  {}
func (Began) event()     {}
func (Called) event()    {}
func (Stumbled) event()  {}
func (Used) event()      {}
func (Sensed) event()    {}
func (Compacted) event() {}
func (Ended) event()     {}
func (Attempted) event() {}
func (Unrun) event()     {}
