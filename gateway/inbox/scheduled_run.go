package inbox

import "hermesd/gateway/schedule"

// A ScheduledRun is a scheduled run that is offered to the store: its slot, and the
// entry by which it enters the inbox.
type ScheduledRun struct {
	Run   schedule.DueRun
	Entry Entry
}

// A ScheduledRunResult says what became of a Firing.
type ScheduledRunResult struct {
	Status schedule.StartStatus
	// Acceptance is that of the entry, if Verdict is schedule.Begun.
	Acceptance Acceptance
}

// RunOutcome returns how a scheduled run ended whose entry ended with o.
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
