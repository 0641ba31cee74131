package gateway

import (
	"context"

	"hermesd/gateway/inbox"
)

// A RunStore stores the start of scheduled runs.
type RunStore interface {
	// StartRuns accepts the entries of scheduled runs, each in one transaction with
	// the record of its occurrence, all of them in one write. An entry is accepted only
	// if its occurrence has no record yet (or one in state missed) and its job is
	// unchanged since the run was prepared, so that an occurrence runs at most once.
	// When an entry ends, its occurrence ends with it.
	StartRuns(ctx context.Context, runs []inbox.ScheduledRun) ([]inbox.ScheduledRunResult, error)
}
