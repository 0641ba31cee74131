package gateway

import (
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
)

// reportReceived emits the result of an event that an adapter offered.
func (g *Gateway) reportReceived(e inbox.Entry, result observe.AcceptResult) {
	a := observe.EventReceived{Platform: e.Inbound.Address.Platform, Result: result}
	switch {
	case result != observe.Accepted || e.State != inbox.Done:
	case e.Outcome.Result == inbox.Failed:
		a.Result = observe.QueueFull
	default:
		a.Result, a.Rule = observe.Denied, e.Outcome.Reason
	}
	g.opts.Observe.Emit(a)
}
