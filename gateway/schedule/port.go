package schedule

import (
	"context"
	"errors"
)

// A Store stores jobs and occurrences. When a method returns without an error its
// changes are on disk; after an error nothing has changed. All methods may be called
// from any goroutine.
type Store interface {
	// Jobs returns all jobs that are not removed, sorted by ID.
	Jobs(ctx context.Context) ([]Job, error)
	// Job returns one job; ok is false if it does not exist or is removed. A removed job
	// whose run continues is returned with Removed set.
	Job(ctx context.Context, id JobID) (j Job, ok bool, err error)
	// AddJobs adds the jobs whose IDs were never used; added reports for each job
	// whether it was added.
	AddJobs(ctx context.Context, jobs []Job) (added []bool, err error)
	// EditJob applies change to a job atomically. It may call change more than once,
	// each time with the stored job. If change fails nothing is stored. EditJob
	// returns the changed job, or ErrNoJob.
	EditJob(ctx context.Context, id JobID, change func(*Job) error) (Job, error)
	// RemoveJob removes a job and its occurrences, except what its current run needs, which
	// is removed when that ends; the ID stays in use. It returns
	// ErrNoJob if the job never existed, and nil if it is removed already.
	RemoveJob(ctx context.Context, id JobID) error
	// Occurrences returns the newest occurrences of a job, or of all jobs if id is
	// "": at most limit, newest first.
	Occurrences(ctx context.Context, id JobID, limit int) ([]Occurrence, error)
	// RecordNotRun records occurrences that do not run and advances RecordedUntil of
	// their jobs. An existing record is kept.
	RecordNotRun(ctx context.Context, list []Occurrence) error
}

// ErrNoJob is returned by a Store for a job that does not exist.
var ErrNoJob = errors.New("schedule: job does not exist")

// A DueRun is an occurrence for which a run is to be started.
type DueRun struct {
	Job        Job
	Occurrence OccurrenceID
	// Manual: the run was requested by a person and is not part of the schedule.
	Manual bool
}

// A StartStatus is the outcome of starting a DueRun.
type StartStatus string

// The start statuses.
const (
	Started         StartStatus = "begun"   // the run is in the inbox
	AlreadyRecorded StartStatus = "known"   // the occurrence has a record; RecordedUntil is advanced
	JobChanged      StartStatus = "changed" // the job has another revision or state; nothing is recorded
	NotAllowed      StartStatus = "refused" // the run cannot start; nothing is recorded yet
)

// A StartResult is the result of starting a DueRun.
type StartResult struct {
	Status StartStatus
	Reason string // for NotAllowed: recorded as the reason for skipping the occurrence
}

// A Runner starts runs. The gateway implements it.
type Runner interface {
	// Start puts the runs into the inbox, each in one transaction with the record of
	// its occurrence. It returns one StartResult per run, or an error if no run was
	// stored. A run that cannot start, for example because its creator has lost
	// access, is NotAllowed.
	Start(ctx context.Context, runs []DueRun) ([]StartResult, error)
}
