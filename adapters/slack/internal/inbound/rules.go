package inbound

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hermesd/gateway/chat"
)

// Settings define which channel messages are addressed to the bot.
type Settings struct {
	RequireMention bool
	Strict         bool     // require a mention in threads too
	InThread       bool     // answer in a thread
	Always         []string // channels in which a mention is required whatever else is set
	NotToOthers    bool     // a message that begins with a mention of somebody else is not addressed
	Free           []string // channels in which everything is answered
	Allowed        []string // channels whose messages are processed; empty: all
	Ignored        []string // channels whose messages are never processed
	Patterns       []string // RE2, any case; each counts as a mention
	Native         []string // channels in which Patterns do not count
	Prompts        map[string]string
	// Commands are the command names, without a slash, that are recognized after
	// /hermes and after an exclamation mark.
	Commands []string
}

// Rules are compiled Settings.
type Rules struct {
	requireMention, strict, inThread, notToOthers bool

	free, always, allowed, ignored, native, commands map[string]bool

	patterns []*regexp.Regexp
	prompts  map[string]string
}

// NewRules compiles the patterns. Its error names the invalid one.
func NewRules(s Settings) (Rules, error) {
	set := func(ids []string) map[string]bool {
		m := make(map[string]bool, len(ids))
		for _, id := range ids {
			m[id] = true
		}
		return m
	}
	r := Rules{
		requireMention: s.RequireMention, strict: s.Strict, inThread: s.InThread, notToOthers: s.NotToOthers, always: set(s.Always),
		free: set(s.Free), allowed: set(s.Allowed), ignored: set(s.Ignored), native: set(s.Native), commands: set(s.Commands), prompts: s.Prompts,
	}
	for _, p := range s.Patterns {
		re, err := regexp.Compile("(?i)" + p)
		if err != nil {
			return Rules{}, fmt.Errorf("mention_patterns: %q is not a regular expression: %w", p, err)
		}
		r.patterns = append(r.patterns, re)
	}
	return r, nil
}

// allows reports whether messages of a channel are processed at all. Those of
// direct chats always are.
func (r Rules) allows(channel string, room ChannelInfo) bool {
	return room.Kind == chat.DM || !r.ignored[channel] && (len(r.allowed) == 0 || r.allowed[channel])
}

// prompt returns the extra prompt of a thread, otherwise that of its channel.
func (r Rules) prompt(at chat.Address) string {
	if p := r.prompts[at.Thread]; p != "" && at.Thread != "" {
		return p
	}
	return r.prompts[at.Chat]
}

func (c Converter) groupRule(in chat.Inbound, room ChannelInfo) string {
	switch {
	case !c.Rules.allows(in.Address.Chat, room):
		return ruleChatNotIn
	case !in.Addressed:
		return ruleNotAddressed
	}
	return ""
}

// A relation describes how a message relates to the bot.
type relation struct {
	named  bool // it mentions the bot
	joined bool // it is in a thread in which the bot takes part
}

func (c Converter) look(b Body) relation {
	r := relation{named: b.Type == "app_mention" || c.Me.UserID != "" && c.mentioned(b)}
	if reply(b) {
		r.joined = b.ParentUserID != "" && b.ParentUserID == c.Me.UserID || c.Joined(b.Channel, b.ThreadTS)
	}
	return r
}

// mentioned reports whether a message mentions the bot, in its text or, without
// one, in its blocks.
func (c Converter) mentioned(b Body) bool {
	if b.Text != "" || len(b.Blocks) == 0 {
		return mentions(b.Text, c.Me.UserID)
	}
	r := &blockReader{refer: c.refer}
	r.pieces(b.Blocks)
	return slices.Contains(r.users, c.Me.UserID)
}

// mentions reports whether text mentions a user, with or without a label.
func mentions(text, user string) bool {
	return strings.Contains(text, "<@"+user+">") || strings.Contains(text, "<@"+user+"|")
}

// addressed reports whether a message is addressed to the bot.
func (c Converter) addressed(b Body, room ChannelInfo, n relation) bool {
	switch {
	case room.Kind == chat.DM, n.named:
		return true
	case c.Rules.notToOthers && strings.HasPrefix(strings.TrimSpace(b.Text), "<@"):
		return false
	case c.Rules.always[b.Channel]:
	case !c.Rules.requireMention, c.Rules.free[b.Channel], n.joined && !c.Rules.strict:
		return true
	}
	return !c.Rules.native[b.Channel] && slices.ContainsFunc(c.Rules.patterns, func(p *regexp.Regexp) bool { return p.MatchString(b.Text) })
}
