package gateway

import (
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/schedule"
)

// offered tells what became of an event that a platform has offered.
func (g *Gateway) offered(e inbox.Entry, v observe.Verdict) {
	a := observe.Accepted{Platform: e.Inbound.Address.Platform, Verdict: v}
	switch {
	case v != observe.Taken || e.State != inbox.Done:
	case e.Outcome.Result == inbox.Failed:
		a.Verdict = observe.Overflow
	default:
		a.Verdict, a.Rule = observe.Refused, e.Outcome.Reason
	}
	g.o.Observe.Tell(a)
}

// unrun tells of slots of scheduled prompts that do not run.
func (g *Gateway) unrun(slots []schedule.Occurrence) {
	for _, s := range slots {
		g.o.Observe.Tell(observe.Unrun{State: string(s.State), Slots: max(s.Count, 1)})
	}
}
