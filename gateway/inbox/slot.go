package inbox

import "hermesd/gateway/schedule"

// A ScheduledRun is a scheduled run that is offered to the store: its slot, and the
// entry by which it enters the inbox.
type ScheduledRun struct {
	Run   schedule.Firing
	Entry Entry
}

// A ScheduledRunResult says what became of a Firing.
type ScheduledRunResult struct {
	Status schedule.Verdict
	// Acceptance is that of the entry, if Verdict is schedule.Begun.
	Acceptance Acceptance
}

// RunOutcome returns how a scheduled run ended whose entry ended with o.
func (o Outcome) RunOutcome() schedule.Ending {
	switch o.Result {
	case Replied, Silent:
		return schedule.Ending{Result: schedule.OK}
	case Cancelled:
		return schedule.Ending{Result: schedule.Failed, Why: "cancelled: " + o.Reason}
	case Failed:
	}
	return schedule.Ending{Result: schedule.Failed, Why: o.Reason}
}
