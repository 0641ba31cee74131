package inbound

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"

	"hermesd/gateway/chat"
)

// allows reports whether messages of a chat are processed at all. Those of
// direct chats always are.
func (c Converter) allows(at chat.Address) bool {
	return at.Kind == chat.DM || len(c.Rules.Allowed) == 0 || c.in(c.Rules.Allowed, at)
}

// in reports whether list contains the chat's current ID or a previous one.
func (c Converter) in(list []string, at chat.Address) bool {
	return slices.ContainsFunc(c.ids(at.Chat), func(id string) bool { return slices.Contains(list, id) })
}

func (c Converter) prompt(at chat.Address) string {
	for _, id := range c.ids(at.Chat) {
		if p, ok := c.Rules.Prompts[id]; ok {
			return p
		}
	}
	return ""
}

// groupRule returns the rule by which a group message is ignored, "" if it is
// not.
func (c Converter) groupRule(m *models.Message, at chat.Address, addressed bool) string {
	switch {
	case !c.allows(at):
		return ruleChatNotIn
	case c.named(m).other:
		return ruleOtherBot
	case !addressed:
		return ruleNotAddressed
	}
	return ""
}

func (c Converter) addressed(m *models.Message, at chat.Address) bool {
	if at.Kind == chat.DM {
		return true
	}
	n := c.named(m)
	if n.us {
		return true
	}
	if n.other {
		return false
	}
	if r := m.ReplyToMessage; r != nil && r.From != nil && r.From.ID == c.Me.ID && !topicRoot(m) {
		return true
	}
	text := m.Text + m.Caption // one of them is empty
	return !c.in(c.Rules.Native, at) && c.Rules.Match(text) || !c.Rules.RequireMention || c.in(c.Rules.Free, at)
}

// names tells whom a message mentions.
type names struct {
	us    bool
	other bool // another bot, and not this one
}

// named evaluates mentions and commands. The usernames of bots end in "bot".
func (c Converter) named(m *models.Message) names {
	var n names
	look := func(text string, ents []models.MessageEntity) {
		units := utf16.Encode([]rune(text))
		for _, e := range ents {
			s, ok := slice(units, e)
			if !ok {
				continue
			}
			switch e.Type {
			case models.MessageEntityTypeTextMention:
				n.us = n.us || e.User != nil && e.User.ID == c.Me.ID
				n.other = n.other || e.User != nil && e.User.IsBot && e.User.ID != c.Me.ID
			case models.MessageEntityTypeMention, models.MessageEntityTypeBotCommand:
				_, name, ok := strings.Cut(s, "@")
				if !ok || name == "" {
					continue
				}
				ours := strings.EqualFold(name, c.Me.Username)
				n.us = n.us || ours
				n.other = n.other || !ours && strings.HasSuffix(strings.ToLower(name), "bot")
			}
		}
	}
	look(m.Text, m.Entities)
	look(m.Caption, m.CaptionEntities)
	n.other = n.other && !n.us
	return n
}

// slice returns the text of an entity. The offsets are untrusted and count
// UTF-16 units.
func slice(units []uint16, e models.MessageEntity) (string, bool) {
	if e.Offset < 0 || e.Length <= 0 || e.Offset > len(units) || e.Length > len(units)-e.Offset {
		return "", false
	}
	return string(utf16.Decode(units[e.Offset : e.Offset+e.Length])), true
}

// stripMention removes the bot's mention from the start of a text, and the bot's
// name after a command. Elsewhere mentions stay: they are part of the text.
func stripMention(text string, ents []models.MessageEntity, me Identity) string {
	if me.Username == "" && me.ID == 0 {
		return text
	}
	units := utf16.Encode([]rune(text))
	lead := len(text) - len(strings.TrimLeft(text, " \n\t"))
	for _, e := range ents {
		s, ok := slice(units, e)
		if !ok || e.Offset != lead || !utf8.ValidString(text) {
			continue
		}
		rest := text[lead+len(s):]
		switch e.Type {
		case models.MessageEntityTypeMention:
			if !strings.EqualFold(s, "@"+me.Username) {
				continue
			}
		case models.MessageEntityTypeTextMention:
			if e.User == nil || e.User.ID != me.ID {
				continue
			}
		case models.MessageEntityTypeBotCommand:
			if cmd, name, ok := strings.Cut(s, "@"); ok && strings.EqualFold(name, me.Username) {
				return text[:lead] + cmd + rest
			}
			continue
		default:
			continue
		}
		if rest = strings.TrimLeft(rest, " \n\t,:;"); rest != "" {
			return rest
		}
		return text
	}
	return text
}
