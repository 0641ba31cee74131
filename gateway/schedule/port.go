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
	// Occurrences returns the newest slots of a job, or of all jobs if id is "", newest
	// first, at most most.
	Occurrences(ctx context.Context, id JobID, most int) ([]Occurrence, error)
	// RecordNotRun records slots that do not run. One that has a record keeps it; the job
	// of each is decided up to it.
	RecordNotRun(ctx context.Context, slots []Occurrence) error
}

// ErrNoJob says that there is no such job.
var ErrNoJob = errors.New("schedule: there is no such job")

// A DueRun is a slot that is to run.
type DueRun struct {
	Job        Job
	Occurrence OccurrenceID
	// Manual says that a person asked for it. It is none of the schedule's.
	Manual bool
}

// A StartStatus says what became of a Firing.
type StartStatus string

// The verdicts.
const (
	Started         StartStatus = "begun"   // the run is in the inbox
	AlreadyRecorded StartStatus = "known"   // the slot has a record already; the job is decided up to it
	JobChanged      StartStatus = "changed" // the job is not what it was; nothing is recorded
	NotAllowed      StartStatus = "refused" // it cannot run; nothing is recorded yet
)

// A StartResult is the verdict on a Firing.
type StartResult struct {
	Status StartStatus
	Reason string // of Refused: recorded as the reason for which the slot was skipped
}

// A Runner begins runs. The gateway is one.
type Runner interface {
	// Start puts the runs into the inbox, each in one transaction with the record
	// of its slot. It returns one Fired for each, or an error if none was put. A
	// run that can never be (its maker may not speak any more, say) is Refused.
	Start(ctx context.Context, runs []DueRun) ([]StartResult, error)
}
