package inbound

import (
	"slices"

	"hermesd/adapters/internal/mention"
	"hermesd/gateway/chat"
)

// The rules by which events are ignored. They are shown by `why`.
const (
	ruleOwn          = "own_message"
	ruleService      = "service_message"
	ruleChatNotIn    = "chat_not_in_allowed_chats"
	ruleIgnored      = "chat_in_ignored_channels"
	ruleOthers       = "addressed_to_somebody_else"
	ruleNotAddressed = "not_addressed"
	ruleEmpty        = "no_content"
	// RuleUnreadable is the rule of an event that cannot be converted.
	RuleUnreadable = "unreadable_event"
)

// anyChat in a list means all channels.
const anyChat = "*"

// Rules decide which guild messages are addressed to the account.
type Rules struct{ mention.Rules }

// in reports whether a list contains a channel or, for a thread, its parent
// channel.
func in(list []string, p ChannelInfo) bool {
	return slices.Contains(list, p.ID) || p.Parent != "" && slices.Contains(list, p.Parent)
}

func (r Rules) isFree(p ChannelInfo) bool { return in(r.Free, p) || slices.Contains(r.Free, anyChat) }

// closed returns the rule by which all messages of a channel are ignored, "" if
// there is none.
func (r Rules) closed(p ChannelInfo) string {
	switch {
	case p.Direct():
		return ""
	case in(r.Ignored, p):
		return ruleIgnored
	case len(r.Allowed) > 0 && !in(r.Allowed, p):
		return ruleChatNotIn
	}
	return ""
}

func (r Rules) prompt(p ChannelInfo) string {
	if s, ok := r.Prompts[p.ID]; ok {
		return s
	}
	return r.Prompts[p.Parent]
}

// names tells whom a guild message mentions.
type names struct {
	us     bool // by mention, by the account's own role, or by a pattern
	reply  bool // it replies to a message of the account
	others bool // it mentions others, and not the account
}

func (c Converter) named(m *message, p ChannelInfo) names {
	var n names
	for _, u := range whole(m.Mentions) {
		if u.ID == c.Me.ID {
			n.us = true
		} else {
			n.others = true
		}
	}
	n.us = n.us || p.Role != "" && slices.Contains(m.RoleMentions, p.Role)
	if !in(c.Rules.Native, p) {
		n.us = n.us || c.Rules.Match(m.Content)
	}
	r := m.Referenced
	n.reply = m.Type == typeReply && r != nil && r.Author != nil && r.Author.ID == c.Me.ID
	n.others = n.others && !n.us && !n.reply
	return n
}

// judge reports whether a message is addressed to the account, and if not, the
// rule.
func (c Converter) judge(m *message, p ChannelInfo, joined bool) (addressed bool, rule string) {
	if p.Direct() {
		return true, ""
	}
	if rule := c.Rules.closed(p); rule != "" {
		return false, rule
	}
	n, free := c.named(m, p), c.Rules.isFree(p)
	switch {
	case n.us || n.reply:
		return true, ""
	case n.others && !free:
		return false, ruleOthers
	case free || (joined || p.Ours) && !c.Rules.Strict || !c.Rules.RequireMention:
		return true, ""
	}
	return false, ruleNotAddressed
}

// opens reports whether a message starts a thread: it is a top-level message of
// a text channel and mentions the account.
func (c Converter) opens(m *message, p ChannelInfo) bool {
	return c.Rules.AutoThread && p.Guild != "" && (p.Type == typeText || p.Type == typeAnnouncement) &&
		m.Type == typeDefault && c.named(m, p).us
}

// address returns the address of a channel, or of the given thread inside it.
func (c Converter) address(p ChannelInfo, thread string) chat.Address {
	at := chat.Address{Platform: chat.Discord, Account: c.Account, Kind: chat.Group, Scope: p.Guild, Chat: p.ID}
	switch {
	case p.Direct():
		at.Kind = chat.DM
	case p.Thread() && p.Parent != "":
		at.Kind, at.Chat, at.Thread = chat.Thread, p.Parent, p.ID
	case thread != "":
		at.Kind, at.Thread = chat.Thread, thread
	}
	return at
}
