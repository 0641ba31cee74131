package inbox

import "hermesd/gateway/schedule"

// A ScheduledRun is a due run for the store to start: its occurrence, and the
// entry that puts it into the inbox.
type ScheduledRun struct {
	Run   schedule.DueRun
	Entry Entry
}

// A ScheduledRunResult is the result of starting a ScheduledRun.
type ScheduledRunResult struct {
	Status schedule.StartStatus
	// Acceptance is that of the entry, if Status is schedule.Started.
	Acceptance Acceptance
}

// RunOutcome returns the outcome of a scheduled run whose entry ended with o.
func (o Outcome) RunOutcome() schedule.RunOutcome {
	switch o.Result {
	case Replied, Silent:
		return schedule.RunOutcome{Result: schedule.OK}
	case Cancelled:
		return schedule.RunOutcome{Result: schedule.Failed, Reason: "cancelled: " + o.Reason}
	case Failed:
	}
	return schedule.RunOutcome{Result: schedule.Failed, Reason: o.Reason}
}
