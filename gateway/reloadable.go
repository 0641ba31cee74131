package gateway

import (
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// Access decides whether the sender of an event is authorized. Its decisions may change
// at any time; each event is checked once, when it is accepted.
type Access interface {
	Check(in chat.Inbound) (access.Grant, access.Denial)
}

// ReloadableSettings are the settings that may change while the gateway runs. None of
// them is in a frozen prompt.
type ReloadableSettings struct {
	Ephemeral   string            // the operator's own overlay text
	Personality map[string]string // texts by name, for /personality
}

// ApplySettings replaces all settings atomically; the next model call uses the new
// ones. The maps must not be changed afterwards.
func (g *Gateway) ApplySettings(l ReloadableSettings) { g.settings.Store(&l) }
