package index

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// A Scope says whose sessions may be seen. The zero Scope sees none.
type Scope struct {
	all  bool
	from session.Record
}

// OperatorScope is the scope of the operator at the machine itself.
func OperatorScope() Scope { return Scope{all: true} }

// ScopeFor returns what may be seen from the session r:
//
//   - in a direct chat with an owner, where nobody else reads along: all;
//   - in a direct chat: all that the same person has said in sessions of their
//     own on the same account of the platform;
//   - elsewhere, where others read the answers: the sessions of this one chat
//     that are shared or of the same person.
func ScopeFor(r session.Record) Scope {
	return Scope{all: r.OwnersOnly && !r.Shared && r.Address.Kind == chat.DM, from: r}
}

// Allows reports whether the session r may be seen.
func (s Scope) Allows(r session.Record) bool {
	if s.all {
		return true
	}
	return s.allows(groupOf(r))
}

// A group is what the sessions have in common that the same people may see.
type group struct {
	platform chat.Platform
	account  string
	scope    string
	room     string
	owner    string
	shared   bool
}

func groupOf(r session.Record) group {
	return group{r.Address.Platform, r.Address.Account, r.Address.Scope, r.Address.Chat, r.Owner, r.Shared}
}

func (s Scope) allows(g group) bool {
	me := groupOf(s.from)
	switch {
	case s.from.ID == "" || g.platform != me.platform || g.account != me.account:
		return false
	case g.platform == chat.Slack && g.scope != me.scope:
		return false // people are known by workspace
	}
	own := !g.shared && !me.shared && me.owner != "" && g.owner == me.owner
	if s.from.Address.Kind == chat.DM && !me.shared {
		return own
	}
	return g.room == me.room && g.scope == me.scope && (own || g.shared)
}
