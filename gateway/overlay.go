package gateway

import (
	"hermesd/agent/prompt"
	"hermesd/gateway/inbox"
	"hermesd/gateway/overlay"
	"hermesd/gateway/session"
)

// overlay returns the overlay of a turn.
func (g *Gateway) overlay(rec session.Record, e inbox.Entry) prompt.OverlayParts {
	return g.opts.Overlay.Build(rec, e.Inbound, overlay.Places{Platforms: g.opts.Accounts.Platforms(), Homes: g.targets.HomeChannels()})
}
