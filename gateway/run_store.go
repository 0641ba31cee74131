package gateway

import (
	"context"

	"hermesd/gateway/inbox"
)

// A RunStore begins scheduled runs.
type RunStore interface {
	// StartRuns accepts the entries of scheduled runs, each in one transaction with
	// the record of its slot, all of them at once. An entry is accepted only if its
	// slot has no record yet (or one that says it was missed) and its job is what
	// the run says, so that a slot runs once at most. When an entry ends its slot
	// ends with it.
	StartRuns(ctx context.Context, runs []inbox.ScheduledRun) ([]inbox.ScheduledRunResult, error)
}
