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

// ReloadableSettings is what may change while the gateway runs. None of it is in a frozen
// prompt.
type ReloadableSettings struct {
	Ephemeral    string                         // the operator's own overlay
	Personality  map[string]string              // texts by name, for /personality
	HomeChannels map[chat.Platform]chat.Address // home channels
}

// ApplySettings replaces all of it at once: a model call sees the old or the new, and
// the next one the new. The maps must not be changed any more.
func (g *Gateway) ApplySettings(l ReloadableSettings) { g.live.Store(&l) }
