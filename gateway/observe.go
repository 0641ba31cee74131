package gateway

import (
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/schedule"
)

// reportReceived tells what became of an event that a platform has offered.
func (g *Gateway) reportReceived(e inbox.Entry, v observe.AcceptResult) {
	a := observe.EventReceived{Platform: e.Inbound.Address.Platform, Result: v}
	switch {
	case v != observe.Accepted || e.State != inbox.Done:
	case e.Outcome.Result == inbox.Failed:
		a.Result = observe.QueueFull
	default:
		a.Result, a.Rule = observe.Denied, e.Outcome.Reason
	}
	g.opts.Observe.Emit(a)
}

// reportNotRun tells of slots of scheduled prompts that do not run.
func (g *Gateway) reportNotRun(slots []schedule.Occurrence) {
	for _, s := range slots {
		g.opts.Observe.Emit(observe.OccurrencesSkipped{State: string(s.State), Count: max(s.Count, 1)})
	}
}
