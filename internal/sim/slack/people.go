package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrNoMessage reports that the message does not exist or has no such button.
var ErrNoMessage = errors.New("slack: no such message")

// A Post is a message that a person, or a bot of another app, sends.
type Post struct {
	From      *User
	Text      string
	Thread    string // ts of the root of the thread
	Broadcast bool   // a reply that is also shown in the channel
	Files     []*File
	Blocks    json.RawMessage
}

// Post sends p to the channel: it becomes a message that is offered to the apps
// whose bots are in the channel. It does not check whether a client would allow
// the message.
func (c *Channel) Post(p Post) Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.newLocked(p.From)
	m.Text, m.Blocks, m.Files = p.Text, p.Blocks, p.Files
	m.joinLocked(c.rootLocked(p.Thread))
	m.Broadcast = p.Broadcast && m.Thread != ""
	switch {
	case p.From.isBot() && p.From.bot == nil:
		m.Subtype = "bot_message"
	case len(p.Files) > 0:
		m.Subtype = "file_share"
		for _, f := range p.Files {
			f.storeLocked(c.s, p.From)
		}
	default:
		m.ClientID = fmt.Sprintf("%08x-0000-4000-a000-%012x", m.N, m.N)
	}
	if m.Broadcast {
		m.Subtype = "thread_broadcast"
	}
	c.announceLocked(m)
	return m.snapshot()
}

// Say posts a text.
func (c *Channel) Say(from *User, text string) Message { return c.Post(Post{From: from, Text: text}) }

// Reply posts a text in the thread of a message.
func (c *Channel) Reply(from *User, thread, text string) Message {
	return c.Post(Post{From: from, Text: text, Thread: thread})
}

// Upload shares files with an optional text.
func (c *Channel) Upload(from *User, text string, files ...*File) Message {
	return c.Post(Post{From: from, Text: text, Files: files})
}

// rootLocked returns the root of the thread that a ts belongs to.
func (c *Channel) rootLocked(ts string) string {
	if m := c.byTS[ts]; m != nil && m.Thread != "" {
		return m.Thread
	}
	return ts
}

// botsLocked returns the bots of the server's apps that are in the channel.
func (c *Channel) botsLocked() []*Bot {
	var out []*Bot
	for _, u := range c.members {
		if u.bot != nil {
			out = append(out, u.bot)
		}
	}
	return out
}

// offer returns an Offer about a message.
func (m *message) offer(kind string) Offer {
	return Offer{
		Kind: kind, Subtype: m.Subtype, Channel: m.Channel, TS: m.TS, Thread: m.Thread, User: m.User, Text: m.Text,
	}
}

// announceLocked offers a new message as a message event and, to bots that it
// mentions, as an app_mention event.
func (c *Channel) announceLocked(m *message) {
	c.s.recorder.note(func(*Counts) {})
	event := m.withMetadata(m.wire())
	event["channel"], event["channel_type"], event["event_ts"] = c.id, c.kind, m.TS
	for _, b := range c.botsLocked() {
		b.offerEventLocked("message."+c.kind.noun(), c.kind.noun()+":history", event, m.offer("message"))
		c.mentionLocked(b, m, "")
	}
}

// mentionLocked offers an app_mention if the message mentions the bot and its
// earlier text did not.
func (c *Channel) mentionLocked(b *Bot, m *message, before string) {
	mention := b.user.Mention()
	if c.kind == DM || m.author == b.user || !strings.Contains(m.Text, mention) || strings.Contains(before, mention) {
		return
	}
	event := m.wire()
	delete(event, "subtype")
	event["type"], event["channel"], event["event_ts"] = "app_mention", c.id, m.TS
	b.offerEventLocked("app_mention", "app_mentions:read", event, m.offer("app_mention"))
}

// changedLocked offers a message_changed event; before is the earlier state of
// the message.
func (c *Channel) changedLocked(m *message, before obj) {
	c.s.recorder.note(func(*Counts) {})
	ts := c.nextLocked()
	o := m.offer("message")
	o.Subtype = "message_changed"
	for _, b := range c.botsLocked() {
		b.offerEventLocked("message."+c.kind.noun(), c.kind.noun()+":history", obj{
			"type": "message", "subtype": "message_changed", "hidden": true, "message": m.wire(), "previous_message": before,
			"channel": c.id, "channel_type": c.kind, "ts": ts, "event_ts": ts,
		}, o)
	}
}

// editLocked changes the content of a message.
func (m *message) editLocked(text string, blocks json.RawMessage) {
	m.Versions = append(m.Versions, m.Message.Shown())
	m.Text, m.Blocks, m.Changed = text, blocks, time.Now()
}

// Edit changes the text of a person's message. It returns ErrNoMessage if there
// is none.
func (c *Channel) Edit(ts, text string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(ts)
	if m == nil || m.author.bot != nil {
		return ErrNoMessage
	}
	before, old := m.wire(), m.Text
	m.editLocked(text, nil)
	c.changedLocked(m, before)
	for _, b := range c.botsLocked() {
		c.mentionLocked(b, m, old)
	}
	return nil
}

// Unfurl adds a preview to a message, as Slack does for links: the message
// changes without an edit.
func (c *Channel) Unfurl(ts, title string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(ts)
	if m == nil {
		return ErrNoMessage
	}
	before := m.wire()
	m.Attachments = encode([]obj{{"title": title, "fallback": title, "id": 1}})
	c.changedLocked(m, before)
	return nil
}

// Delete deletes a message. It returns ErrNoMessage if there is none.
func (c *Channel) Delete(ts string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(ts)
	if m == nil {
		return ErrNoMessage
	}
	c.deleteLocked(m)
	return nil
}

// deleteLocked deletes a message. The root of a thread is replaced by a
// tombstone.
func (c *Channel) deleteLocked(m *message) {
	c.s.recorder.note(func(*Counts) {})
	before := m.wire()
	if len(m.repliesLocked()) > 0 {
		m.editLocked("This message was deleted.", nil)
		m.Subtype, m.Files, m.Metadata, m.Attachments = "tombstone", nil, nil, nil
		c.changedLocked(m, before)
		return
	}
	m.Deleted = time.Now()
	ts := c.nextLocked()
	o := m.offer("message")
	o.Subtype = "message_deleted"
	for _, b := range c.botsLocked() {
		b.offerEventLocked("message."+c.kind.noun(), c.kind.noun()+":history", obj{
			"type": "message", "subtype": "message_deleted", "hidden": true, "deleted_ts": m.TS, "previous_message": before,
			"channel": c.id, "channel_type": c.kind, "ts": ts, "event_ts": ts,
		}, o)
	}
}

// Join adds a user to the channel; inviter may be nil. Apps receive a message
// event and a member_joined_channel event.
func (c *Channel) Join(u, inviter *User) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.hasLocked(u) {
		return
	}
	c.members = append(c.members, u)
	m := c.newLocked(u)
	m.Text, m.Subtype = u.Mention()+" has joined the channel", "channel_join"
	c.announceLocked(m)
	event := obj{
		"type": "member_joined_channel", "user": u.ID(), "channel": c.id, "channel_type": strings.ToUpper(c.id[:1]),
		"team": c.team.id, "event_ts": m.TS,
	}
	if inviter != nil {
		event["inviter"] = inviter.ID()
	}
	for _, b := range c.botsLocked() {
		b.offerEventLocked("member_joined_channel", c.kind.noun()+":read", event,
			Offer{Kind: "member_joined_channel", Channel: c.id, User: u.ID()})
	}
}

// Leave removes a user from the channel. Apps receive no event.
func (c *Channel) Leave(u *User) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.members = slices.DeleteFunc(slices.Clone(c.members), func(m *User) bool { return m == u })
}

// React adds a reaction of a user to a message.
func (c *Channel) React(u *User, ts, emoji string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(ts)
	if m == nil {
		return ErrNoMessage
	}
	m.reactLocked(u, emoji)
	return nil
}

// reactLocked adds a reaction. It reports false if the user already had this
// reaction.
func (m *message) reactLocked(u *User, emoji string) bool {
	i := slices.IndexFunc(m.Reactions, func(r Reaction) bool { return r.Name == emoji })
	if i < 0 {
		i = len(m.Reactions)
		m.Reactions = append(m.Reactions, Reaction{Name: emoji})
	}
	r := &m.Reactions[i]
	if slices.Contains(r.Users, u.ID()) {
		return false
	}
	r.Users = append(r.Users, u.ID())
	event := obj{
		"type": "reaction_added", "user": u.ID(), "reaction": emoji, "item_user": m.User, "event_ts": stamp(time.Now()),
		"item": obj{"type": "message", "channel": m.Channel, "ts": m.TS},
	}
	for _, b := range m.channel.botsLocked() {
		b.offerEventLocked("reaction_added", "reactions:read", event,
			Offer{Kind: "reaction_added", Channel: m.Channel, TS: m.TS, User: u.ID(), Text: emoji})
	}
	return true
}

// OpenAssistant opens the assistant pane of a bot: a thread in the direct
// message. It returns the channel and the ts of the thread.
func (u *User) OpenAssistant(b *Bot) (dm *Channel, thread string) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	c := u.dmLocked(b.user)
	root := c.newLocked(b.user)
	root.Text, root.Subtype = "New Assistant Thread", "assistant_app_thread"
	b.offerEventLocked("assistant_thread_started", "assistant:write", obj{
		"type": "assistant_thread_started", "event_ts": root.TS,
		"assistant_thread": obj{"user_id": u.ID(), "context": obj{}, "channel_id": c.id, "thread_ts": root.TS},
	}, Offer{Kind: "assistant_thread_started", Channel: c.id, TS: root.TS, Thread: root.TS, User: u.ID()})
	return c, root.TS
}

// stamp formats a time as a ts.
func stamp(t time.Time) string {
	return fmt.Sprintf("%010d.%06d", t.Unix(), t.Nanosecond()/1000)
}
