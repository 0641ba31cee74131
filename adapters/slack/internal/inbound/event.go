// Package inbound turns what Slack sends into events of ours. Its functions are
// pure: the same payload, converter and time give the same event.
package inbound

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"hermesd/gateway/chat"
)

// The rules by which events are left unanswered; they stand in `why`.
const (
	ruleService      = "service_message"
	ruleDeleted      = "message_deleted"
	ruleChatNotIn    = "chat_not_in_allowed_chats"
	ruleNotAddressed = "not_addressed"
	RuleUnsupported  = "unsupported_content"
	RuleUnreadable   = "unreadable_event"
)

// An Identity is what Slack says of the bot itself and of its workspace.
type Identity struct {
	Team   string `json:"team"`
	UserID string `json:"user"`
	BotID  string `json:"bot"`
	Name   string `json:"name"`
}

// A ChannelInfo is what is known of a channel.
type ChannelInfo struct {
	Kind chat.Kind // DM, Group for a group direct message, Channel for all others
	Name string
}

// A Converter turns payloads into events.
type Converter struct {
	Account string
	Me      Identity
	Rules   Rules
	// Joined reports whether we take part in a thread.
	Joined func(channel, thread string) bool
	// Name returns a person's name and handle, empty if they are not known.
	Name func(user string) (name, handle string)
	// Room returns what is known of a channel; an empty Kind: nothing.
	Room func(channel string) ChannelInfo
}

// errUnreadable says that a payload has nothing in it that can be converted.
var errUnreadable = errors.New("event: unreadable payload")

// Convert returns the event of an envelope; ok is false if nothing in it
// concerns anybody. now stands in for the time of events that carry none. Its
// error says that the payload cannot be read.
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

// Quotable reports whether a message of a thread is somebody's words and not
// ours or a notice of Slack's.
func (c Converter) Quotable(b Body) bool { return !c.own(b) && noise(b) == "" }

// Message returns the event of a message, as it comes in an event or stands in
// the history.
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

// said is what somebody else said. What we say comes back to us, with each edit
// of a preview; it stands in the outbox and concerns nobody here.
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
	in.HasEarlierMessages = in.IgnoreRule == "" && room.Kind != chat.DM && reply(b) && (!n.joined || c.Rules.strict)
	return in, true
}

// reply reports whether a message is in a thread and not its root.
func reply(b Body) bool { return b.ThreadTS != "" && b.ThreadTS != b.TS }

// place returns where a message stands, and where its answer goes. A message
// that is meant for us opens a thread in a channel if that is wanted; the
// thread has no message of its own yet.
func (c Converter) place(b Body, room ChannelInfo, addressed bool) chat.Address {
	a := chat.Address{Platform: chat.Slack, Account: c.Account, Scope: c.Me.Team, Chat: b.Channel, Kind: room.Kind}
	if room.Kind == chat.Channel {
		a.Kind = chat.Group
	}
	switch {
	case reply(b):
		a.Thread = b.ThreadTS
	case room.Kind == chat.Channel && c.Rules.inThread && addressed:
		a.Thread = b.TS
	}
	if a.Thread != "" && room.Kind != chat.DM {
		a.Kind = chat.Thread
	}
	return a
}

// room returns what a channel is: by what the event says, by what is known, by
// its id.
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

// sender returns who speaks.
func (c Converter) sender(b Body) chat.Person {
	p := chat.Person{ID: cmp.Or(b.User, b.BotID), Bot: b.BotID != "" || b.Subtype == "bot_message"}
	p.Name, p.Handle = c.Name(b.User)
	if p.Name == "" {
		p.Name = b.Username
	}
	if p.Name == "" && b.BotProfile != nil {
		p.Name = b.BotProfile.Name
	}
	if p.ID == "" { // a service speaks, or nobody
		p.ID = b.Channel
	}
	return p
}

func (c Converter) own(b Body) bool {
	return b.User != "" && b.User == c.Me.UserID || b.BotID != "" && b.BotID == c.Me.BotID
}

// noise names the rule for what nobody expects an answer to.
func noise(b Body) string {
	switch b.Subtype {
	case "", "file_share", "thread_broadcast", "me_message", "bot_message":
		if !b.Hidden {
			return ""
		}
	}
	return ruleService
}

// changed is somebody's edit. Slack also changes a message when it shows what a
// link leads to, or when a thread begins under it; then nobody wrote anything.
func (c Converter) changed(b Body) (chat.Inbound, bool) {
	m, old := b.Message, b.Previous
	if m == nil || m.Edited == nil || m.Subtype == "tombstone" {
		return chat.Inbound{}, false
	}
	if old != nil && old.Edited != nil && old.Edited.TS == m.Edited.TS || old != nil && old.Text == m.Text && len(old.Files) == len(m.Files) {
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

// deleted is recorded for `why`, and ends there.
func (c Converter) deleted(b Body) (chat.Inbound, bool) {
	gone := Body{Type: "message", TS: b.DeletedTS}
	if b.Previous != nil {
		gone = *b.Previous
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

// Quarantined is the event that stands for an envelope that cannot be
// converted: it is recorded as far as it is short, once also where Slack sends
// it again in another envelope, and never asked for again.
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

// stub finds the channel of a payload of which nothing else can be read, and the
// id of its event where it has one.
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
	_ = json.Unmarshal(p.ID, &event) // none, or none that is one: ""
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
