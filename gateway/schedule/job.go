package schedule

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// A JobID names a job: 12 hex digits, or what it was called in the home from
// which it was imported. It never changes and is never given to another job.
type JobID string

// NewJobID returns a fresh id.
func NewJobID() JobID {
	var b [6]byte
	rand.Read(b[:])
	return JobID(hex.EncodeToString(b[:]))
}

// JobIDFor returns the id that a job gets which something called name makes. To
// do the same thing again makes the same job.
func JobIDFor(name string) JobID {
	sum := sha256.Sum256([]byte(name))
	return JobID(hex.EncodeToString(sum[:6]))
}

// A Job is a prompt and when it is due.
type Job struct {
	ID   JobID  `json:"id"`
	Name string `json:"name"`
	// Prompt is what the agent is told; it may be empty if there are Skills or a
	// Script.
	Prompt   string   `json:"prompt,omitempty"`
	Schedule Schedule `json:"schedule"`
	Skills   []string `json:"skills,omitempty"` // loaded in this order before the prompt
	// Script is a file below $HERMES_HOME/scripts that runs first; what it writes
	// becomes context. ScriptOnly: what it writes is delivered, no agent runs.
	Script     string `json:"script,omitempty"`
	ScriptOnly bool   `json:"no_agent,omitempty"`
	Workdir    string `json:"workdir,omitempty"`
	Model      string `json:"model,omitempty"`
	Provider   string `json:"provider,omitempty"`
	// Deliver are the targets of the answer: "origin", "local", a platform, or
	// platform:chat or platform:chat:thread.
	Deliver []string `json:"deliver"`
	// Context names jobs whose newest output comes before the prompt.
	Context []JobID `json:"context_from,omitempty"`
	// Repeat is how many runs there will be; 0: no end.
	Repeat int `json:"repeat,omitempty"`
	// Paused jobs are never due.
	Paused bool `json:"paused,omitempty"`
	// Creator is who made the job: its runs have that person's rights, as they are then.
	Creator access.Principal `json:"by"`
	// Origin is where it was made, and where "origin" delivers to. The zero address
	// is the command line.
	Origin     chat.Address `json:"origin,omitzero"`
	OriginName string       `json:"origin_name,omitempty"` // of the chat or person; untrusted
	Created    time.Time    `json:"created"`
	Updated    time.Time    `json:"updated"`
	// Revision counts the changes. A run of an older revision is refused.
	Revision int      `json:"rev"`
	State    JobState `json:"state"`
	// Removed, if set, says that nothing but the id is left, so that it is neither
	// imported nor given again.
	Removed time.Time `json:"removed,omitzero"`
}

// A JobState is how far a job has come. Only the store and the Scheduler change it.
type JobState struct {
	// RecordedUntil is an instant up to which all slots of the job have a record.
	RecordedUntil time.Time `json:"decided"`
	// Runs counts the slots that ran, without those that people asked for.
	Runs int `json:"runs,omitempty"`
	// RunningOccurrence is the slot of the run that goes on; the zero time: none does.
	RunningOccurrence time.Time `json:"running,omitzero"`
	// ManualRunAt, if set, is when somebody asked for a run that has not begun yet, and
	// Ask what they asked with: the same again is the same run.
	ManualRunAt time.Time `json:"asked,omitzero"`
	ManualRunID string    `json:"ask,omitempty"`
	// Ended is when the last run ended, Result how, and Why what was wrong.
	Ended           time.Time `json:"ended,omitzero"`
	Result          Result    `json:"result,omitempty"`
	Reason          string    `json:"why,omitempty"`
	Failures        int       `json:"failures,omitempty"` // in a row
	OccurrenceCount int       `json:"slots,omitempty"`    // that are kept
	// Done says that no slot comes any more: all runs that were to be are done.
	Done bool `json:"done,omitempty"`
}

// Active reports whether j can be due.
func (j Job) Active() bool { return !j.Paused && !j.State.Done && j.Removed.IsZero() }

// Status is the state of j in one word.
func (j Job) Status() string {
	switch {
	case !j.State.RunningOccurrence.IsZero():
		return "running"
	case !j.State.ManualRunAt.IsZero():
		return "asked"
	case j.State.Done:
		return "completed"
	case j.Paused:
		return "paused"
	}
	return "scheduled"
}

// Last reports whether the run that follows runs others is the last of j.
func (j Job) Last(runs int) bool {
	return j.Schedule.Kind == Once || j.Repeat > 0 && runs+1 >= j.Repeat
}

// A OccurrenceState says what became of a slot.
type OccurrenceState string

// The states of a slot. Running is followed by Ran; the others are final.
const (
	Running OccurrenceState = "running" // its run is in the inbox
	Ran     OccurrenceState = "ran"
	Skipped OccurrenceState = "skipped" // the daemon decided against it
	Missed  OccurrenceState = "missed"  // the daemon was not there
)

// A Result is how a run ended.
type Result string

// The results of runs.
const (
	OK     Result = "ok"
	Failed Result = "failed"
	// Pending is what is told of a run that has ended well, and whose answer has no
	// receipt yet. It is not kept.
	Pending Result = "pending"
)

// A OccurrenceID names a slot: there is one record of it at most.
type OccurrenceID struct {
	Job   JobID     `json:"job"`
	DueAt time.Time `json:"at"` // when it is due, a whole second
}

// String returns the slot as it stands in idempotency keys.
func (id OccurrenceID) String() string { return fmt.Sprintf("cron:%s:%d", id.Job, id.DueAt.Unix()) }

// Session is the id of the session of the slot's run.
func (id OccurrenceID) Session() session.ID {
	return session.ID("cron_" + string(id.Job) + "_" + id.DueAt.UTC().Format("20060102_150405"))
}

// A Occurrence is the record of one instant at which a job was due, or was asked for.
type Occurrence struct {
	OccurrenceID
	State  OccurrenceState `json:"state"`
	Result Result          `json:"result,omitempty"` // of Ran
	// Reason is the reason of Skipped and Missed, and what was wrong with a run.
	Reason string `json:"why,omitempty"`
	// Manual says that a person asked for the run.
	Manual bool `json:"asked,omitempty"`
	// Since and Count, if set, say that the record stands for Count slots from
	// Since on: the oldest ones of a long time in which nothing ran.
	Since time.Time `json:"since,omitzero"`
	Count int       `json:"count,omitempty"`
	// Entry is the run's entry in the inbox ("m12"), and Turn its turn.
	Entry string    `json:"entry,omitempty"`
	Turn  string    `json:"turn,omitempty"`
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Delivery is what became of the answer, for as long as the outbox knows it.
	// The store sets it when it is asked; it is not kept.
	Delivery DeliveryStatus `json:"delivery,omitempty"`
}

// A DeliveryStatus says what became of the answer of a run.
type DeliveryStatus string

// The deliveries. "" is that nothing was to be delivered, or that it is not known
// any more.
const (
	Waiting     DeliveryStatus = "waiting"
	Delivered   DeliveryStatus = "delivered"
	Undelivered DeliveryStatus = "undelivered"
)

// An RunOutcome is how a run ended, where its inbox entry does not say it: an
// answer that could not be delivered, a script that failed and was told of.
type RunOutcome struct {
	Result Result
	Reason string
}

// Inbound returns the event by which the run of slot enters the inbox. It is
// Addressed, its key is that of the slot, its text the prompt; who it is from
// must be checked as for any other event.
func Inbound(j Job, slot OccurrenceID) chat.Inbound {
	return chat.Inbound{
		IdempotencyKey: slot.String(), ID: slot.String(), Kind: chat.Message, SentAt: slot.DueAt, Addressed: true,
		Address: chat.Address{Platform: chat.Cron, Kind: chat.DM, Chat: string(j.ID), Thread: slot.DueAt.UTC().Format("20060102T150405Z")},
		Sender:  chat.Person{ID: j.Creator.ID}, Text: j.Prompt, ChatName: j.Name,
	}
}

// Operator is who makes jobs at the machine itself.
func Operator() access.Principal {
	return access.Principal{Platform: chat.Cron, ID: "operator", Level: access.Owner}
}

// sortSlots puts the newest first.
func sortSlots(slots []Occurrence) {
	slices.SortStableFunc(slots, func(x, y Occurrence) int { return y.DueAt.Compare(x.DueAt) })
}
