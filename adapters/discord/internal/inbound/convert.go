package inbound

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"hermesd/adapters/internal/mention"
	"hermesd/gateway/chat"
)

// The types of messages that users write.
const (
	typeDefault = 0
	typeReply   = 19
)

// flagThread is the flag of a message from which a thread was started.
const flagThread = 1 << 5

// A ConvertResult is the result of converting an event.
type ConvertResult int

const (
	Converted  ConvertResult = iota // the event is to be accepted
	Skipped                         // the event contains nothing relevant
	OwnMessage                      // the event is a message of the account itself
)

// An Identity is the bot's own account.
type Identity struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	App  string `json:"app,omitempty"` // ID of the bot's application
}

// A Converter converts Discord's events to inbound events. It is a value.
type Converter struct {
	Account string
	Me      Identity
	Rules   Rules
}

// Where returns the guild, the channel and the ID of a raw message or
// interaction.
func Where(raw json.RawMessage) (guild, channel, id string, err error) {
	var w struct {
		ID      string `json:"id"`
		Channel string `json:"channel_id"`
		Guild   string `json:"guild_id"`
	}
	if err := read(raw, &w); err != nil {
		return "", "", "", err
	}
	if _, ok := Snowflake(w.ID); !ok || w.Channel == "" {
		return "", "", "", errUnreadable
	}
	return w.Guild, w.Channel, w.ID, nil
}

// Message converts a message at p, or an edit of one if edit is true. joined is
// true if the account already takes part in the conversation at p. The error
// means that the event cannot be decoded.
func (c Converter) Message(raw json.RawMessage, p ChannelInfo, edit, joined bool) (chat.Inbound, ConvertResult, error) {
	var m message
	if err := read(raw, &m); err != nil {
		return chat.Inbound{}, Skipped, err
	}
	if edit && m.Edited == "" {
		return chat.Inbound{}, Skipped, nil // not an edit by the user; for example, a link preview was added
	}
	if _, ok := Snowflake(m.ID); !ok || m.Channel == "" || m.Author == nil || m.Author.ID == "" {
		return chat.Inbound{}, Skipped, errUnreadable
	}
	in := chat.Inbound{
		IdempotencyKey: m.Channel + ":" + m.ID, ID: m.ID, Kind: chat.Message,
		Sender: c.sender(m.Author, m.Member, m.Webhook), SentAt: when(m.At, m.ID),
		Prompt: c.Rules.prompt(p), Files: files(&m), ReplyTo: c.quote(&m),
	}
	c.place(&in, p, c.thread(&m, p))
	if edit {
		in.Kind, in.EditedKey = chat.Edit, in.IdempotencyKey
		in.IdempotencyKey += ":" + m.Edited
		in.SentAt = when(m.Edited, m.ID)
	}
	in.Addressed, in.IgnoreRule = c.judge(&m, p, joined)
	in.Text = c.words(&m, p)
	switch {
	case m.Author.ID == c.Me.ID:
		in.IgnoreRule = ruleOwn
		return in, OwnMessage, nil
	case m.Type != typeDefault && m.Type != typeReply:
		in.IgnoreRule = ruleService
	case in.IgnoreRule == "" && in.Text == "" && len(in.Files) == 0:
		in.IgnoreRule = ruleEmpty
	}
	return in, Converted, nil
}

// thread returns the ID of the thread that belongs to a top-level message of a
// channel.
func (c Converter) thread(m *message, p ChannelInfo) string {
	if p.Direct() || p.Thread() {
		return ""
	}
	if c.opens(m, p) || m.Flags&flagThread != 0 && c.Rules.AutoThread {
		return m.ID
	}
	return ""
}

// place sets where an event happened.
func (c Converter) place(in *chat.Inbound, p ChannelInfo, thread string) {
	in.Address = c.address(p, thread)
	if p.Direct() {
		return
	}
	in.ChatName = p.Name
	if p.Thread() {
		in.ChatName, in.Topic = p.ParentName, p.Name
	}
	if p.GuildName != "" && in.ChatName != "" {
		in.ChatName = p.GuildName + " / " + in.ChatName
	}
}

func (c Converter) sender(u *user, m *member, webhook string) chat.Person {
	p := chat.Person{ID: u.ID, Name: u.name(), Handle: u.Username, Bot: u.Bot || webhook != ""}
	if m != nil {
		if m.Nick != "" {
			p.Name = m.Nick
		}
		if len(m.Roles) > 0 {
			p.Roles = m.Roles
		}
	}
	return p
}

func (c Converter) quote(m *message) *chat.Quote {
	if m.Type != typeReply || m.Reference == nil || m.Reference.ID == "" {
		return nil
	}
	q := &chat.Quote{ID: m.Reference.ID}
	if r := m.Referenced; r != nil {
		q.Text = c.words(r, ChannelInfo{})
		if r.Author != nil {
			q.Author, q.FromBot = r.Author.name(), r.Author.ID == c.Me.ID
		}
	}
	return q
}

// An Interaction is the data needed to answer an interaction.
type Interaction struct {
	ID, Token string
	App       string
	Command   bool // a slash command; otherwise a button
}

// InteractionPlace returns the channel information contained in an interaction.
func InteractionPlace(raw json.RawMessage) (ChannelInfo, bool) {
	var i interaction
	if read(raw, &i) != nil || i.Place == nil || i.Place.ID == "" {
		return ChannelInfo{}, false
	}
	p := ChannelInfo{ID: i.Place.ID, Guild: i.Guild, Name: i.Place.Name, Type: i.Place.Type, Last: i.Place.LastMsg}
	if p.Thread() {
		p.Parent = i.Place.Parent
	}
	return p, true
}

// Interaction converts a pressed button, or a slash command, which is converted
// to the text of a typed command.
func (c Converter) Interaction(raw json.RawMessage, p ChannelInfo, now time.Time) (chat.Inbound, Interaction, ConvertResult, error) {
	var i interaction
	if err := read(raw, &i); err != nil {
		return chat.Inbound{}, Interaction{}, Skipped, err
	}
	if i.Kind != kindCommand && i.Kind != kindComponent {
		return chat.Inbound{}, Interaction{}, Skipped, nil
	}
	u := i.User
	if i.Member != nil && i.Member.User != nil {
		u = i.Member.User
	}
	if _, ok := Snowflake(i.ID); !ok || i.Channel == "" || u == nil || u.ID == "" {
		return chat.Inbound{}, Interaction{}, Skipped, errUnreadable
	}
	in := chat.Inbound{
		IdempotencyKey: i.ID, ID: i.ID, Kind: chat.Message, Sender: c.sender(u, i.Member, ""), SentAt: Time(i.ID),
		Prompt: c.Rules.prompt(p), Addressed: true, IgnoreRule: c.Rules.closed(p),
	}
	if in.SentAt.After(now.Add(time.Hour)) {
		in.SentAt = now.UTC()
	}
	c.place(&in, p, "")
	answer := Interaction{ID: i.ID, Token: i.Token, App: i.Application, Command: i.Kind == kindCommand}
	if answer.Command {
		in.Text = commandText(&i)
		return in, answer, Converted, nil
	}
	in.Kind, in.Text = chat.Callback, i.Data.CustomID
	if i.Message != nil && i.Message.ID != "" {
		in.ID = i.Message.ID
	}
	return in, answer, Converted, nil
}

// commandText returns a slash command as users would type it.
func commandText(i *interaction) string {
	words := []string{"/" + i.Data.Name}
	var add func([]*option)
	add = func(all []*option) {
		for _, o := range whole(all) {
			if len(o.Options) > 0 || len(o.Value) == 0 {
				words = append(words, o.Name)
				add(o.Options)
				continue
			}
			var s string
			if json.Unmarshal(o.Value, &s) != nil {
				s = string(o.Value)
			}
			words = append(words, s)
		}
	}
	add(i.Data.Options)
	return strings.TrimSpace(strings.Join(words, " "))
}

// Quarantined returns a record of an event that could not be converted; ok is
// false if the event does not say where it happened. The record has a key of its
// own, so that the same message can still be accepted if it arrives in a valid
// form.
func (c Converter) Quarantined(raw json.RawMessage, p ChannelInfo, now time.Time) (in chat.Inbound, ok bool) {
	_, channel, id, err := Where(raw)
	if err != nil {
		return chat.Inbound{}, false
	}
	p.ID = cmp.Or(p.ID, channel)
	at := Time(id)
	if at.After(now.Add(time.Hour)) {
		at = now.UTC()
	}
	return chat.Inbound{
		IdempotencyKey: channel + ":" + id + ":" + RuleUnreadable, ID: id, Kind: chat.Message, Address: c.address(p, ""), SentAt: at, IgnoreRule: RuleUnreadable,
	}, true
}

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
