// Package inbound converts Slack's payloads to inbound events. Its functions are
// pure: the same payload, converter and time give the same event.
package inbound

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
)

// The rules by which events are ignored. They are shown by `why`.
const (
	ruleService      = "service_message"
	ruleDeleted      = "message_deleted"
	ruleChatNotIn    = "chat_not_in_allowed_chats"
	ruleNotAddressed = "not_addressed"
	RuleUnsupported  = "unsupported_content"
	RuleUnreadable   = "unreadable_event"
)

// An Identity is the bot's own account and its workspace.
type Identity struct {
	Team   string `json:"team"`
	UserID string `json:"user"`
	BotID  string `json:"bot"`
	Name   string `json:"name"`
}

// A ChannelInfo is the known data of a channel.
type ChannelInfo struct {
	Kind chat.Kind // DM, Group for a group direct message, Channel for all others
	Name string
}

// A Converter converts payloads to events.
type Converter struct {
	Account string
	Me      Identity
	Rules   Rules
	// Joined reports whether the bot takes part in a thread.
	Joined func(channel, thread string) bool
	// Name returns a user's name and handle, empty if they are not known.
	Name func(user string) (name, handle string)
	// Room returns the known data of a channel; an empty Kind means that it is
	// not known.
	Room func(channel string) ChannelInfo
}

// errUnreadable is the error of a payload that cannot be converted at all.
var errUnreadable = errors.New("event: unreadable payload")

// Convert returns the event of an envelope; ok is false if it contains nothing
// relevant. now is the time of events that carry none. The error means that the
// payload cannot be decoded.
func (c Converter) Convert(e Envelope, now time.Time) (in chat.Inbound, ok bool, err error) {
	switch e.Type {
	case EventsAPI:
		var p callback
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return chat.Inbound{}, false, errors.Join(errUnreadable, err)
		}
		in, ok = c.Message(p.Event)
		return in, ok, nil
	case Interactive:
		var p press
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return chat.Inbound{}, false, errors.Join(errUnreadable, err)
		}
		in, ok = c.press(p, now)
		return in, ok, nil
	case SlashCommand:
		var p slash
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return chat.Inbound{}, false, errors.Join(errUnreadable, err)
		}
		in, ok = c.slash(p, now)
		return in, ok, nil
	}
	return chat.Inbound{}, false, nil
}

// Quotable reports whether a message of a thread is a user's message, not one of
// the bot or a service message.
func (c Converter) Quotable(b Body) bool { return !c.own(b) && noise(b) == "" }

// Message returns the event of a message from an event or a history.
func (c Converter) Message(b Body) (chat.Inbound, bool) {
	switch {
	case b.Channel == "" || b.Type != "message" && b.Type != "app_mention":
		return chat.Inbound{}, false
	case b.Subtype == "message_changed":
		return c.changed(b)
	case b.Subtype == "message_deleted":
		return c.deleted(b)
	}
	return c.said(b)
}

// Key returns the idempotency key of a message.
func Key(channel, ts string) string { return channel + ":" + ts }

// said converts a message of another user. Slack also reports the bot's own
// messages, with each edit of a preview; they are in the outbox and are ignored
// here.
func (c Converter) said(b Body) (chat.Inbound, bool) {
	at, ok := Time(b.TS)
	if !ok || c.own(b) {
		return chat.Inbound{}, false
	}
	room := c.room(b.Channel, b.ChannelType)
	in := chat.Inbound{
		IdempotencyKey: Key(b.Channel, b.TS), ID: b.TS, Kind: chat.Message, SentAt: at,
		Sender: c.sender(b), ChatName: room.Name,
		Text: c.text(b), Files: files(b.Files),
	}
	n := c.look(b)
	in.Addressed = c.addressed(b, room, n)
	in.Address = c.place(b, room, in.Addressed)
	in.Prompt = c.Rules.prompt(in.Address)
	in.IgnoreRule = noise(b)
	if in.IgnoreRule == "" && in.Text == "" && len(in.Files) == 0 {
		if room.Kind == chat.DM {
			in.Text = "[a kind of message that this bot cannot read]"
		} else {
			in.IgnoreRule = RuleUnsupported
		}
	}
	if in.IgnoreRule == "" {
		in.IgnoreRule = c.groupRule(in, room)
	}
	in.HasEarlierMessages = in.IgnoreRule == "" && room.Kind != chat.DM && reply(b) && (!n.joined || c.Rules.Strict)
	return in, true
}

// reply reports whether a message is in a thread and not its root.
func reply(b Body) bool { return b.ThreadTS != "" && b.ThreadTS != b.TS }

// place returns the address of a message, to which its answer is sent. If so
// configured, a channel message that is addressed to the bot opens a thread,
// which has no message of its own yet.
func (c Converter) place(b Body, room ChannelInfo, addressed bool) chat.Address {
	a := chat.Address{Platform: chat.Slack, Account: c.Account, Scope: c.Me.Team, Chat: b.Channel, Kind: room.Kind}
	if room.Kind == chat.Channel {
		a.Kind = chat.Group
	}
	switch {
	case reply(b):
		a.Thread = b.ThreadTS
	case room.Kind == chat.Channel && c.Rules.AutoThread && addressed:
		a.Thread = b.TS
	}
	if a.Thread != "" && room.Kind != chat.DM {
		a.Kind = chat.Thread
	}
	return a
}

// room returns the data of a channel: from the event, from the directory, or
// from its ID.
func (c Converter) room(channel, kind string) ChannelInfo {
	r := c.Room(channel)
	switch kind {
	case "im":
		r.Kind = chat.DM
	case "mpim":
		r.Kind = chat.Group
	case "channel", "group":
		r.Kind = chat.Channel
	}
	if r.Kind == "" {
		r.Kind = chat.Channel
		if strings.HasPrefix(channel, "D") {
			r.Kind = chat.DM
		}
	}
	return r
}

// slackbot is the user as which Slack itself writes, without a bot ID.
const slackbot = "USLACKBOT"

func (c Converter) sender(b Body) chat.Person {
	p := chat.Person{ID: cmp.Or(b.User, b.BotID), Bot: b.BotID != "" || b.Subtype == "bot_message" || b.User == slackbot}
	p.Name, p.Handle = c.Name(b.User)
	p.Name = cmp.Or(p.Name, b.Username)
	if p.Name == "" && b.BotProfile != nil {
		p.Name = b.BotProfile.Name
	}
	if p.ID == "" { // sent by an integration, or without a sender
		p.ID = b.Channel
	}
	return p
}

func (c Converter) own(b Body) bool {
	return b.User != "" && b.User == c.Me.UserID || b.BotID != "" && b.BotID == c.Me.BotID
}

// noise returns the rule for messages that need no answer.
func noise(b Body) string {
	switch b.Subtype {
	case "", "file_share", "thread_broadcast", "me_message", "bot_message":
		if !b.Hidden {
			return ""
		}
	}
	return ruleService
}

// changed converts a user's edit. Slack also changes a message to add a link
// preview, or when a thread starts under it; such changes are not edits.
func (c Converter) changed(b Body) (chat.Inbound, bool) {
	m, old := b.Message, b.before()
	if m != nil && m.Subtype == "tombstone" { // a deleted message that has a thread
		b.DeletedTS = m.TS
		return c.deleted(b)
	}
	if m == nil || m.Edited == nil {
		return chat.Inbound{}, false
	}
	if old != nil && old.Edited != nil && old.Edited.TS == m.Edited.TS || old != nil && c.text(*old) == c.text(*m) && len(old.Files) == len(m.Files) {
		return chat.Inbound{}, false
	}
	now := *m
	now.Type, now.Channel, now.ChannelType = "message", b.Channel, b.ChannelType
	in, ok := c.said(now)
	if !ok {
		return chat.Inbound{}, false
	}
	in.Kind, in.EditedKey = chat.Edit, in.IdempotencyKey
	in.IdempotencyKey += ":" + m.Edited.TS
	in.HasEarlierMessages = false
	if at, ok := Time(m.Edited.TS); ok {
		in.SentAt = at
	}
	return in, true
}

// deleted converts a deletion, which is only recorded for `why`.
func (c Converter) deleted(b Body) (chat.Inbound, bool) {
	gone := Body{Type: "message", TS: b.DeletedTS}
	if old := b.before(); old != nil {
		gone = *old
		gone.TS = cmp.Or(b.DeletedTS, gone.TS)
	}
	gone.Channel, gone.ChannelType, gone.Subtype, gone.Hidden = b.Channel, b.ChannelType, "", false
	in, ok := c.said(gone)
	if !ok {
		return chat.Inbound{}, false
	}
	in.IdempotencyKey += ":deleted"
	in.Text, in.Files, in.HasEarlierMessages, in.Addressed, in.IgnoreRule = "[a message was deleted]", nil, false, false, ruleDeleted
	return in, true
}

// Quarantined returns an event that records an envelope that cannot be
// converted, with a limited part of it. It is recorded once, even if Slack sends
// it again in another envelope, and never fetched again.
func (c Converter) Quarantined(e Envelope, now time.Time) (chat.Inbound, bool) {
	channel, id := stub(e.Payload)
	if channel == "" {
		return chat.Inbound{}, false
	}
	key := "event:" + id
	if id == "" {
		key = "envelope:" + e.ID
	}
	const keep = 4 << 10
	text := string(e.Payload[:min(len(e.Payload), keep)])
	return chat.Inbound{
		IdempotencyKey: key, ID: e.ID, Kind: chat.Message, SentAt: now.UTC(),
		Address: c.place(Body{Channel: channel}, c.room(channel, ""), false),
		Text:    strings.ToValidUTF8(text, "?"), IgnoreRule: RuleUnreadable,
	}, true
}

// stub returns the channel of a payload that cannot be decoded otherwise, and
// the ID of its event if it has one.
func stub(raw json.RawMessage) (channel, event string) {
	var p struct {
		ID    json.RawMessage `json:"event_id"`
		Event struct {
			Channel json.RawMessage `json:"channel"`
		} `json:"event"`
		Channel   json.RawMessage `json:"channel"`
		ChannelID json.RawMessage `json:"channel_id"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return "", ""
	}
	_ = json.Unmarshal(p.ID, &event) // missing or invalid: ""
	for _, v := range []json.RawMessage{p.Event.Channel, p.ChannelID, p.Channel} {
		var id string
		if json.Unmarshal(v, &id) == nil && id != "" {
			return id, event
		}
		var obj struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(v, &obj) == nil && obj.ID != "" {
			return obj.ID, event
		}
	}
	return "", ""
}

// Subject names what an envelope concerns, so that it can be looked up before it
// is converted. Each may be empty.
type Subject struct {
	Channel string
	// Kind is the channel's kind in the payload; "" if it has none.
	Kind string
	User string
	// ResponseURL accepts an answer to a slash command where the bot cannot
	// write.
	ResponseURL string
}

// Of returns the subject of an envelope.
func Of(e Envelope) Subject {
	switch e.Type {
	case EventsAPI:
		var p callback
		if json.Unmarshal(e.Payload, &p) != nil {
			return Subject{}
		}
		a := Subject{Channel: p.Event.Channel, Kind: p.Event.ChannelType, User: p.Event.User}
		if p.Event.Message != nil {
			a.User = p.Event.Message.User
		}
		return a
	case Interactive:
		var p press
		if json.Unmarshal(e.Payload, &p) != nil {
			return Subject{}
		}
		return Subject{Channel: p.place(), User: p.User.ID}
	case SlashCommand:
		var p slash
		if json.Unmarshal(e.Payload, &p) != nil {
			return Subject{}
		}
		return Subject{Channel: p.ChannelID, Kind: p.kind(), User: p.UserID, ResponseURL: p.ResponseURL}
	}
	return Subject{}
}

// maxData is the maximum size of a button's data.
const maxData = 64

// press converts the press of a button of the bot. Other interactions are
// ignored.
func (c Converter) press(p press, now time.Time) (chat.Inbound, bool) {
	channel := p.place()
	if p.Type != "block_actions" || channel == "" || len(p.Actions) == 0 || p.User.ID == "" {
		return chat.Inbound{}, false
	}
	act := p.Actions[0]
	if act.Type != "button" || len(act.Value) > maxData {
		return chat.Inbound{}, false
	}
	ts := cmp.Or(p.Container.MessageTS, p.Message.TS)
	key := cmp.Or(p.TriggerID, channel+":"+ts+":"+p.User.ID+":"+act.ActionTS)
	in := chat.Inbound{
		IdempotencyKey: "press:" + key, ID: ts, Kind: chat.Callback, Text: act.Value, SentAt: now.UTC(), Addressed: true,
		Sender: c.actor(p.User.ID, cmp.Or(p.User.Username, p.User.Name)),
	}
	if at, ok := Time(act.ActionTS); ok {
		in.SentAt = at
	}
	room := c.room(channel, "")
	b := Body{Channel: channel, TS: ts, ThreadTS: cmp.Or(p.Container.ThreadTS, p.Message.ThreadTS)}
	in.Address, in.ChatName = c.place(b, room, false), room.Name
	if !c.Rules.allows(channel, room) {
		in.IgnoreRule = ruleChatNotIn
	}
	return in, true
}

func (p press) place() string { return cmp.Or(p.Container.ChannelID, p.Channel.ID) }

func (c Converter) actor(id, handle string) chat.Person {
	p := chat.Person{ID: id, Handle: handle}
	if name, h := c.Name(id); name != "" {
		p.Name, p.Handle = name, cmp.Or(h, handle)
	}
	return p
}

// slash converts a slash command. /hermes is followed by the name of a command
// or a question; any other slash command is a command of the daemon under its
// own name.
func (c Converter) slash(p slash, now time.Time) (chat.Inbound, bool) {
	if p.ChannelID == "" || p.UserID == "" || p.Command == "" {
		return chat.Inbound{}, false
	}
	room := c.room(p.ChannelID, p.kind())
	in := chat.Inbound{
		IdempotencyKey: "slash:" + cmp.Or(p.TriggerID, p.ChannelID+":"+p.UserID+":"+p.Command+":"+TS(now)),
		ID:             cmp.Or(p.TriggerID, TS(now)),
		Address:        c.place(Body{Channel: p.ChannelID}, room, false), Kind: chat.Message,
		Sender: c.actor(p.UserID, p.UserName), SentAt: now.UTC(), ChatName: room.Name,
		Text: c.Rules.slashText(p), Addressed: true,
	}
	in.Prompt = c.Rules.prompt(in.Address)
	if !c.Rules.allows(p.ChannelID, room) {
		in.IgnoreRule = ruleChatNotIn
	}
	return in, true
}

func (p slash) kind() string {
	switch {
	case p.ChannelName == "directmessage":
		return "im"
	case strings.HasPrefix(p.ChannelName, "mpdm-"):
		return "mpim"
	}
	return "channel"
}

// General is the slash command that accepts all other commands as its text.
const General = "/hermes"

func (r Rules) slashText(p slash) string {
	args := strings.TrimSpace(p.Text)
	if p.Command != General {
		return strings.TrimSpace(p.Command + " " + args)
	}
	if args == "" {
		return "/help"
	}
	name, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(args, "\n", " ")), " ")
	if slices.Contains(r.commands, name) {
		return "/" + args
	}
	return args
}
