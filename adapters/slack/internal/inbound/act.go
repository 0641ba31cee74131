package inbound

import (
	"cmp"
	"strings"
	"time"

	"hermesd/gateway/chat"
)

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
	if r.commands[name] {
		return "/" + args
	}
	return args
}
