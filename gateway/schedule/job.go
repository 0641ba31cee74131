package schedule

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// A JobID identifies a job: 12 hex digits, or the ID that it had where it was
// imported from. It never changes and is never reused.
type JobID string

// NewJobID returns a random ID.
func NewJobID() JobID {
	var b [6]byte
	rand.Read(b[:])
	return JobID(hex.EncodeToString(b[:]))
}

// JobIDFor returns the ID that is derived from name. Creating a job for the same
// name again therefore yields the same job.
func JobIDFor(name string) JobID {
	sum := sha256.Sum256([]byte(name))
	return JobID(hex.EncodeToString(sum[:6]))
}

// A Job is a stored prompt with its schedule.
type Job struct {
	ID   JobID  `json:"id"`
	Name string `json:"name"`
	// Prompt is the text that the agent gets; it may be empty if Skills or Script
	// is set.
	Prompt   string   `json:"prompt,omitempty"`
	Schedule Schedule `json:"schedule"`
	Skills   []string `json:"skills,omitempty"` // loaded in this order before the prompt
	// Script is a file below $HERMES_HOME/scripts that runs first; its output becomes
	// context. With ScriptOnly the output is delivered and no agent runs.
	Script     string `json:"script,omitempty"`
	ScriptOnly bool   `json:"no_agent,omitempty"`
	Workdir    string `json:"workdir,omitempty"`
	Model      string `json:"model,omitempty"`
	Provider   string `json:"provider,omitempty"`
	// Deliver lists the targets of the answer: "origin", "local", a platform,
	// platform:chat or platform:chat:thread.
	Deliver []string `json:"deliver"`
	// Context lists jobs whose newest output is put before the prompt.
	Context []JobID `json:"context_from,omitempty"`
	// Repeat is the number of runs after which the job is done; 0: no limit.
	Repeat int `json:"repeat,omitempty"`
	// Paused jobs are never due.
	Paused bool `json:"paused,omitempty"`
	// PauseReason says why the daemon paused the job; "": it did not.
	PauseReason string `json:"paused_why,omitempty"`
	// Creator made the job. A run has the rights that this principal has when it starts.
	Creator access.Principal `json:"by"`
	// Origin is the chat in which the job was made, to which "origin" delivers. The
	// zero address is the command line.
	Origin     chat.Address `json:"origin,omitzero"`
	OriginName string       `json:"origin_name,omitempty"` // name of the chat or person; untrusted
	Created    time.Time    `json:"created"`
	Updated    time.Time    `json:"updated"`
	// Revision counts the changes. A run of an older revision is rejected.
	Revision int      `json:"rev"`
	State    JobState `json:"state"`
	// Removed, if set, is when the job was removed. Only the ID is kept once its current
	// run has ended, so that it is neither imported nor assigned again.
	Removed time.Time `json:"removed,omitzero"`
}

// A JobState is the progress of a job. The Store updates it with every occurrence;
// the Manager changes it for new schedules and manual runs, the Scheduler only to
// correct times of a wrong clock.
type JobState struct {
	// RecordedUntil is an instant up to which all occurrences of the job have a record.
	RecordedUntil time.Time `json:"decided"`
	// Runs counts the runs, manual ones excluded.
	Runs int `json:"runs,omitempty"`
	// RunningOccurrence is the due time of the current run; zero: none.
	RunningOccurrence time.Time `json:"running,omitzero"`
	// ManualRunAt, if set, is when a manual run was requested that has not started
	// yet. ManualRunID identifies the last request, so that repeating it is one run.
	ManualRunAt time.Time `json:"asked,omitzero"`
	ManualRunID string    `json:"ask,omitempty"`
	// Ended, Result and Reason are the time, the result and the failure reason of the
	// last run.
	Ended           time.Time `json:"ended,omitzero"`
	Result          Result    `json:"result,omitempty"`
	Reason          string    `json:"why,omitempty"`
	Failures        int       `json:"failures,omitempty"` // consecutive
	OccurrenceCount int       `json:"slots,omitempty"`    // number of stored records
	// Done: all runs have ended, the job is never due again.
	Done bool `json:"done,omitempty"`
}

// Active reports whether j can be due.
func (j Job) Active() bool { return !j.Paused && !j.State.Done && j.Removed.IsZero() }

// ByOperator reports whether the operator created j, on the command line or in the local
// chat, or imported it.
func (j Job) ByOperator() bool {
	return j.Creator == Operator() || j.Origin.Platform == "" || j.Origin.Platform == chat.Console
}

// Status returns the state of j: running, asked, completed, paused or scheduled.
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

// Last reports whether the run after the given number of runs is the last of j.
func (j Job) Last(runs int) bool {
	return j.Schedule.Kind == Once || j.Repeat > 0 && runs+1 >= j.Repeat
}

// An OccurrenceState is the state of an occurrence.
type OccurrenceState string

// The states of an occurrence. Running is followed by Ran; the others are final.
const (
	Running OccurrenceState = "running" // the run is in the inbox
	Ran     OccurrenceState = "ran"     // the run has ended
	Skipped OccurrenceState = "skipped" // the daemon was up and did not run it
	Missed  OccurrenceState = "missed"  // the daemon was down, or the clock jumped
)

// A Result is how a run ended.
type Result string

// The results of a run.
const (
	OK     Result = "ok"
	Failed Result = "failed"
	// Pending is reported for a successful run whose answer has no receipt yet. It is
	// not stored.
	Pending Result = "pending"
)

// An OccurrenceID identifies an occurrence. At most one record exists for it.
type OccurrenceID struct {
	Job   JobID     `json:"job"`
	DueAt time.Time `json:"at"` // a whole second
}

// String returns the form used in idempotency keys.
func (id OccurrenceID) String() string { return fmt.Sprintf("cron:%s:%d", id.Job, id.DueAt.Unix()) }

// Session returns the session ID of the run.
func (id OccurrenceID) Session() session.ID {
	return session.ID("cron_" + string(id.Job) + "_" + id.DueAt.UTC().Format("20060102_150405"))
}

// An Occurrence is the record of one instant at which a job was due or was run
// manually.
type Occurrence struct {
	OccurrenceID
	State  OccurrenceState `json:"state"`
	Result Result          `json:"result,omitempty"` // if State is Ran
	// Reason says why it was Skipped or Missed, or why the run failed.
	Reason string `json:"why,omitempty"`
	// Manual: the run was requested by a person.
	Manual bool `json:"asked,omitempty"`
	// Since and Count are set if the record covers Count occurrences, the first one
	// due at Since: the oldest ones of a long gap.
	Since time.Time `json:"since,omitzero"`
	Count int       `json:"count,omitempty"`
	// Entry is the ID of the run's inbox entry ("m12"), Turn that of its turn.
	Entry string    `json:"entry,omitempty"`
	Turn  string    `json:"turn,omitempty"`
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Delivery is the delivery status of the answer while the outbox has it. The
	// Store sets it when reading; it is not stored here.
	Delivery DeliveryStatus `json:"delivery,omitempty"`
}

// A DeliveryStatus is the delivery status of a run's answer.
type DeliveryStatus string

// The delivery statuses. "": there was nothing to deliver, or the outbox no longer
// has the rows.
const (
	Waiting     DeliveryStatus = "waiting"
	Delivered   DeliveryStatus = "delivered"
	Undelivered DeliveryStatus = "undelivered"
)

// A RunOutcome is the result of a run where it differs from that of its inbox entry:
// an answer that could not be delivered, or a failed script that was reported.
type RunOutcome struct {
	Result Result
	Reason string
}

// Inbound returns the event that puts the run of an occurrence into the inbox. It is
// Addressed, its idempotency key is id.String and its text the prompt. Its sender
// must be checked like that of any other event.
func Inbound(j Job, id OccurrenceID) chat.Inbound {
	return chat.Inbound{
		IdempotencyKey: id.String(), ID: id.String(), Kind: chat.Message, SentAt: id.DueAt, Addressed: true,
		Address: chat.Address{Platform: chat.Cron, Kind: chat.DM, Chat: string(j.ID), Thread: id.DueAt.UTC().Format("20060102T150405Z")},
		Sender:  chat.Person{ID: j.Creator.ID}, Text: j.Prompt, ChatName: j.Name,
	}
}

// Operator returns the principal of jobs that are made on the command line.
func Operator() access.Principal {
	return access.Principal{Platform: chat.Cron, ID: "operator", Level: access.Owner}
}

// CheckRights checks that j has nothing that its creator, whose level is given, may not
// have: only the job of an owner may have a script, a workdir and targets other than
// "origin" and "local". The error is ErrInvalid and joins all problems.
func CheckRights(j Job, creator access.Level) error {
	if creator >= access.Owner {
		return nil
	}
	var problems []error
	if j.Script != "" || j.ScriptOnly {
		problems = append(problems, invalid("only the job of an owner may run a script; leave out script and no_agent"))
	}
	if j.Workdir != "" {
		problems = append(problems, invalid("only the job of an owner may have a workdir; leave it out"))
	}
	for _, t := range j.Deliver {
		if t != "origin" && t != "local" {
			problems = append(problems, invalid(`only the job of an owner may deliver to %q; use "origin" or "local"`, t))
		}
	}
	return errors.Join(problems...)
}

// CanRead reports whether the output of a job of creator may become input of reader:
// if they are the same, or both are owners.
func CanRead(reader, creator access.Principal) bool {
	return isSame(reader, creator) || reader.Level == access.Owner && creator.Level == access.Owner
}

// isSame compares without the level, which changes.
func isSame(x, y access.Principal) bool { return x.Platform == y.Platform && x.ID == y.ID }

// canChange reports whether v may change j, which it can see: the runs of j have at most
// the level that its creator had, so v needs that level or is the creator.
func (v Caller) canChange(j Job) bool {
	return v.Principal.Level >= j.Creator.Level || isSame(v.Principal, j.Creator)
}
