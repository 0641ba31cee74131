package schedule

import (
	"context"
	"errors"
)

// A Store keeps jobs and slots. What a method reports as done is on disk; of
// writes that fail nothing has happened. All methods may be called from any
// goroutine.
type Store interface {
	// Jobs returns all jobs that are not removed, by id.
	Jobs(ctx context.Context) ([]Job, error)
	// Job returns one job; ok is false if there is none or it is removed.
	Job(ctx context.Context, id JobID) (j Job, ok bool, err error)
	// AddJobs adds those of jobs whose ids were never used before, and reports
	// which these are.
	AddJobs(ctx context.Context, jobs []Job) (added []bool, err error)
	// EditJob lets change change a job, alone: nothing else happens to the job
	// meanwhile. It may call change more than once, each time with the job as it
	// is. If change fails nothing is kept. It returns the job after the change, or
	// ErrNoJob.
	EditJob(ctx context.Context, id JobID, change func(*Job) error) (Job, error)
	// RemoveJob removes a job and its slots, but not its id. It returns ErrNoJob if
	// there was never such a job, and nil for one that is removed already.
	RemoveJob(ctx context.Context, id JobID) error
	// Slots returns the newest slots of a job, or of all jobs if id is "", newest
	// first, at most most.
	Slots(ctx context.Context, id JobID, most int) ([]Slot, error)
	// Decide records slots that do not run. One that has a record keeps it; the job
	// of each is decided up to it.
	Decide(ctx context.Context, slots []Slot) error
}

// ErrNoJob says that there is no such job.
var ErrNoJob = errors.New("schedule: there is no such job")

// A Firing is a slot that is to run.
type Firing struct {
	Job  Job
	Slot SlotID
	// Asked says that a person asked for it. It is none of the schedule's.
	Asked bool
}

// A Verdict says what became of a Firing.
type Verdict string

// The verdicts.
const (
	Begun   Verdict = "begun"   // the run is in the inbox
	Known   Verdict = "known"   // the slot has a record already; the job is decided up to it
	Changed Verdict = "changed" // the job is not what it was; nothing is recorded
	Refused Verdict = "refused" // it cannot run; nothing is recorded yet
)

// A Fired is the verdict on a Firing.
type Fired struct {
	Verdict Verdict
	Why     string // of Refused: recorded as the reason for which the slot was skipped
}

// A Runner begins runs. The gateway is one.
type Runner interface {
	// Fire puts the runs into the inbox, each in one transaction with the record
	// of its slot. It returns one Fired for each, or an error if none was put. A
	// run that can never be (its maker may not speak any more, say) is Refused.
	Fire(ctx context.Context, runs []Firing) ([]Fired, error)
}
