package discord

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Types of messages that the server creates.
const (
	TypeDefault       = 0
	TypeJoin          = 7
	TypeThreadCreated = 18
	TypeReply         = 19
	TypeCommand       = 20
	TypeThreadStarter = 21
)

// A Message is a message in a channel, possibly deleted.
type Message struct {
	ID          string
	Channel     string
	Guild       string
	N           int // running number across all channels
	From        *User
	Type        int
	Text        string
	Nonce       string
	ReplyTo     string
	Thread      string // ID of the thread that was started from it
	Interaction string // ID of the interaction that it answers
	Embeds      []json.RawMessage
	Buttons     [][]Button
	Files       []*File
	Mentions    []string // IDs of mentioned users
	Roles       []string // IDs of mentioned roles
	Everyone    bool     // everyone was mentioned
	Reactions   []Reaction
	Ephemeral   bool // only the person of the interaction sees it
	Pending     bool // a deferred answer that has not been filled in ("is thinking")
	Bare        bool // link previews are suppressed
	Sent        time.Time
	Edited      time.Time // zero: never
	Deleted     time.Time // zero: not deleted
	Versions    []Version // earlier contents
}

// A Version is the content of a message before an edit.
type Version struct {
	Text  string
	Until time.Time
}

// A Button is a button under a message, or another component with a custom_id.
type Button struct {
	CustomID string
	Label    string
	Style    int
	Disabled bool
}

// A Reaction is an emoji on a message with its users.
type Reaction struct {
	Emoji string
	From  string
}

// A message is a Message with the fields that only the server knows.
type message struct {
	Message
	ch         *Channel
	components json.RawMessage
	starter    *message // of a thread starter message
	about      *Channel // the thread that the message announces
	reply      *message
}

func (m *message) snapshot() Message {
	c := m.Message
	c.Reactions, c.Versions, c.Files = slices.Clone(m.Reactions), slices.Clone(m.Versions), slices.Clone(m.Files)
	return c
}

// Messages returns all messages of the channel in order, including deleted
// ones.
func (c *Channel) Messages() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	out := make([]Message, len(c.msgs))
	for i, m := range c.msgs {
		out[i] = m.snapshot()
	}
	return out
}

// Message returns one message of the channel, deleted or not; false if there
// never was one with this ID.
func (c *Channel) Message(id string) (Message, bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.byID[id]
	if m == nil {
		return Message{}, false
	}
	return m.snapshot(), true
}

// Visible returns the texts of the messages of a user that were not deleted, in
// order; of all users if u is nil. Ephemeral and pending messages are included.
func (c *Channel) Visible(u *User) []string {
	var out []string
	for _, m := range c.Messages() {
		if m.Deleted.IsZero() && (u == nil || m.From == u) {
			out = append(out, m.Text)
		}
	}
	return out
}

const keptMessages = 1000 // messages per channel, with CountersOnly

func (c *Channel) newMessageLocked(from *User, text string) *message {
	c.s.messages++
	m := &message{ch: c, Message: Message{
		ID: c.s.newIDLocked(), Channel: c.id, N: c.s.messages, From: from, Text: text, Sent: time.Now(),
	}}
	if c.guild != nil {
		m.Guild = c.guild.id
	}
	c.putLocked(m)
	return m
}

func (c *Channel) putLocked(m *message) {
	c.msgs = append(c.msgs, m)
	c.byID[m.ID] = m
	if c.s.opts.CountersOnly && len(c.msgs) > keptMessages {
		delete(c.byID, c.msgs[0].ID)
		for _, f := range c.msgs[0].Files {
			delete(c.s.files, f.path)
		}
		c.msgs = c.msgs[1:]
	}
}

// liveLocked returns a message that was not deleted, or nil.
func (c *Channel) liveLocked(id string) *message {
	if m := c.byID[id]; m != nil && m.Deleted.IsZero() {
		return m
	}
	return nil
}

var mention = regexp.MustCompile(`<@([!&]?)([0-9]+)>`)

// An allowed is the allowed_mentions object: which mentions notify users.
type allowed struct {
	Parse       []string `json:"parse"`
	Roles       []string `json:"roles"`
	Users       []string `json:"users"`
	RepliedUser bool     `json:"replied_user"`
}

// mentionLocked sets the mentions of the message from its text; a nil a allows
// all.
func (m *message) mentionLocked(a *allowed, p Permission) {
	m.Mentions, m.Roles, m.Everyone = nil, nil, false
	may := func(kind, id string, list []string) bool {
		return a == nil || slices.Contains(a.Parse, kind) || slices.Contains(list, id)
	}
	add := func(list *[]string, id string) {
		if !slices.Contains(*list, id) {
			*list = append(*list, id)
		}
	}
	var lists allowed
	if a != nil {
		lists = *a
	}
	for _, found := range mention.FindAllStringSubmatch(m.Text, -1) {
		id := found[2]
		switch {
		case found[1] != "&":
			if m.ch.s.users[id] != nil && may("users", id, lists.Users) {
				add(&m.Mentions, id)
			}
		case m.ch.guild != nil && slices.ContainsFunc(m.ch.guild.roles, func(r *Role) bool {
			return r.ID == id && (r.Mentionable || p&MentionEveryone != 0)
		}):
			if may("roles", id, lists.Roles) {
				add(&m.Roles, id)
			}
		}
	}
	everyone := strings.Contains(m.Text, "@everyone") || strings.Contains(m.Text, "@here")
	m.Everyone = everyone && m.ch.guild != nil && p&MentionEveryone != 0 && may("everyone", "", nil)
	if m.reply != nil && (a == nil || a.RepliedUser) {
		add(&m.Mentions, m.reply.From.ID)
	}
}

// secretLocked reports whether the content of the message is hidden from a
// viewer.
func (m *message) secretLocked(v view) bool {
	return !v.content && m.ch.guild != nil && m.From != v.bot.user && !slices.Contains(m.Mentions, v.bot.user.ID)
}

// wireLocked returns the message as a bot sees it.
func (m *message) wireLocked(v view) obj {
	w := obj{
		"id": m.ID, "channel_id": m.Channel, "type": m.Type, "author": m.From.wire(), "content": m.Text,
		"timestamp": stamp(m.Sent), "edited_timestamp": stamp(m.Edited), "tts": false, "pinned": false,
		"mention_everyone": m.Everyone, "mention_roles": append([]string{}, m.Roles...), "flags": m.flags(),
		"mentions": m.wireMentionsLocked(), "attachments": m.wireFilesLocked(v), "embeds": m.wireEmbeds(),
		"components": m.wireComponents(),
	}
	if m.secretLocked(v) {
		w["content"], w["attachments"], w["embeds"], w["components"] = "", []obj{}, []obj{}, []obj{}
	}
	if len(m.Reactions) > 0 {
		w["reactions"] = m.wireReactionsLocked(v)
	}
	switch {
	case m.about != nil:
		w["message_reference"] = obj{"type": 0, "channel_id": m.about.id, "guild_id": m.Guild}
	case m.starter != nil:
		w["message_reference"] = m.starter.reference()
		w["referenced_message"] = m.starter.wireLocked(v)
	case m.reply != nil:
		w["message_reference"] = m.reply.reference()
		w["referenced_message"] = nil
		if m.reply.Deleted.IsZero() {
			flat := *m.reply
			flat.reply = nil // only one level of replies
			w["referenced_message"] = flat.wireLocked(v)
		}
	}
	if t := m.ch.s.channels[m.Thread]; m.Thread != "" && t != nil {
		w["thread"] = t.wireLocked(v)
	}
	if m.From.bot != nil {
		w["application_id"] = m.From.ID
	}
	return w
}

func (m *message) flags() int {
	const hasThread, ephemeral, loading = 1 << 5, 1 << 6, 1 << 7
	flags := 0
	for flag, on := range map[int]bool{suppressEmbeds: m.Bare, hasThread: m.Thread != "", ephemeral: m.Ephemeral, loading: m.Pending} {
		if on {
			flags |= flag
		}
	}
	return flags
}

func (m *message) reference() obj {
	ref := obj{"type": 0, "message_id": m.ID, "channel_id": m.Channel}
	if m.Guild != "" {
		ref["guild_id"] = m.Guild
	}
	return ref
}

func (m *message) wireMentionsLocked() []obj {
	out := []obj{}
	for _, id := range m.Mentions {
		out = append(out, m.ch.s.users[id].wire())
	}
	return out
}

func (m *message) wireEmbeds() any {
	if len(m.Embeds) == 0 {
		return []obj{}
	}
	return m.Embeds
}

func (m *message) wireComponents() any {
	if len(m.components) == 0 {
		return []obj{}
	}
	return m.components
}

func (m *message) wireReactionsLocked(v view) []obj {
	var out []obj
	for _, r := range m.Reactions {
		i := slices.IndexFunc(out, func(o obj) bool { return o["emoji"].(obj)["name"] == r.Emoji })
		if i < 0 {
			out = append(out, obj{"emoji": obj{"id": nil, "name": r.Emoji}, "count": 0, "me": false})
			i = len(out) - 1
		}
		out[i]["count"] = out[i]["count"].(int) + 1
		out[i]["me"] = out[i]["me"].(bool) || r.From == v.bot.user.ID
	}
	return out
}

// announceLocked offers an event about the message to the bots that may see it.
func (m *message) announceLocked(kind string) {
	if m.Ephemeral {
		return // ephemeral messages result in no event
	}
	intent := IntentGuildMessages
	if m.ch.guild == nil {
		intent = IntentDirectMessages
	}
	o := Offer{Channel: m.Channel, Message: m.ID, From: m.From.ID, Text: m.Text}
	for _, b := range m.ch.botsLocked() {
		b.dispatchLocked(kind, intent, o, func(v view) obj { return m.wireEventLocked(kind, v) })
	}
}

func (m *message) wireEventLocked(kind string, v view) obj {
	w := obj{"id": m.ID, "channel_id": m.Channel}
	if kind != "MESSAGE_DELETE" {
		w = m.wireLocked(v)
	}
	if kind == "MESSAGE_CREATE" && m.Nonce != "" && m.From == v.bot.user {
		w["nonce"] = m.Nonce
	}
	if m.ch.guild == nil {
		return w
	}
	w["guild_id"] = m.Guild
	if from := m.ch.guild.members[m.From.ID]; from != nil && kind != "MESSAGE_DELETE" {
		w["member"] = from.wire()
	}
	return w
}
