package inbound

import (
	"slices"
	"strings"

	"hermesd/adapters/internal/mention"
	"hermesd/gateway/chat"
)

// Settings define which channel messages are addressed to the bot.
type Settings struct {
	mention.Settings
	Always      []string // channels in which a mention is required whatever else is set
	NotToOthers bool     // a message that begins with a mention of somebody else is not addressed
	// Commands are the command names, without a slash, that are recognized after
	// /hermes and after an exclamation mark.
	Commands []string
}

// Rules are Settings with compiled patterns.
type Rules struct {
	mention.Rules
	always, commands []string
	notToOthers      bool
}

// NewRules compiles the patterns. Its error names the invalid one.
func NewRules(s Settings) (Rules, error) {
	r, err := mention.NewRules(s.Settings)
	return Rules{r, s.Always, s.Commands, s.NotToOthers}, err
}

// allows reports whether messages of a channel are processed at all. Those of
// direct chats always are.
func (r Rules) allows(channel string, room ChannelInfo) bool {
	return room.Kind == chat.DM || !slices.Contains(r.Ignored, channel) && (len(r.Allowed) == 0 || slices.Contains(r.Allowed, channel))
}

// prompt returns the extra prompt of a thread, otherwise that of its channel.
func (r Rules) prompt(at chat.Address) string {
	if p := r.Prompts[at.Thread]; p != "" && at.Thread != "" {
		return p
	}
	return r.Prompts[at.Chat]
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

func (c Converter) addressed(b Body, room ChannelInfo, n relation) bool {
	switch {
	case room.Kind == chat.DM, n.named:
		return true
	case c.Rules.notToOthers && strings.HasPrefix(strings.TrimSpace(b.Text), "<@"):
		return false
	case slices.Contains(c.Rules.always, b.Channel):
	case !c.Rules.RequireMention, slices.Contains(c.Rules.Free, b.Channel), n.joined && !c.Rules.Strict:
		return true
	}
	return !slices.Contains(c.Rules.Native, b.Channel) && c.Rules.Match(b.Text)
}
