package gateway

import (
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// Access decides who may speak. What it says may change at any time; each
// message is judged once, when it comes in.
type Access interface {
	Check(in chat.Inbound) (access.Grant, access.Denial)
}

// Live is what may change while the gateway runs. None of it is in a frozen
// prompt.
type Live struct {
	Ephemeral   string                         // the operator's own overlay
	Personality map[string]string              // texts by name, for /personality
	Homes       map[chat.Platform]chat.Address // home channels
}

// Change replaces all of it at once: a model call sees the old or the new, and
// the next one the new. The maps must not be changed any more.
func (g *Gateway) Change(l Live) { g.live.Store(&l) }
