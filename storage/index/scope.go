package index

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// A Scope is the set of sessions that may be seen. The zero Scope is empty.
type Scope struct {
	all  bool
	from session.Record
}

// OperatorScope returns the scope of the local operator: all sessions.
func OperatorScope() Scope { return Scope{all: true} }

// ScopeFor returns the sessions that may be seen from the session r:
//
//   - in a direct chat with an owner that nobody else can read: all sessions;
//   - in another direct chat: the user's own sessions on the same account of the
//     platform;
//   - in other chats, where others read the answers: the sessions of this chat
//     that are shared or belong to the same user.
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

// A group identifies the sessions that are visible to the same users.
type group struct {
	platform chat.Platform
	account  string
	scope    string
	chat     string
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
		return false // user IDs are per workspace
	}
	own := !g.shared && !me.shared && me.owner != "" && g.owner == me.owner
	if s.from.Address.Kind == chat.DM && !me.shared {
		return own
	}
	return g.chat == me.chat && g.scope == me.scope && (own || g.shared)
}
