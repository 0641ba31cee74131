package inbox

import "hermesd/gateway/schedule"

// A Firing is a scheduled run that is offered to the store: its slot, and the
// entry by which it enters the inbox.
type Firing struct {
	Run   schedule.Firing
	Entry Entry
}

// A Fired says what became of a Firing.
type Fired struct {
	Verdict schedule.Verdict
	// Acceptance is that of the entry, if Verdict is schedule.Begun.
	Acceptance Acceptance
}

// Ending returns how a scheduled run ended whose entry ended with o.
func (o Outcome) Ending() schedule.Ending {
	switch o.Result {
	case Replied, Silent:
		return schedule.Ending{Result: schedule.OK}
	case Cancelled:
		return schedule.Ending{Result: schedule.Failed, Why: "cancelled: " + o.Why}
	case Failed:
	}
	return schedule.Ending{Result: schedule.Failed, Why: o.Why}
}
