package telegram

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Version is the content of a message before an edit.
type Version struct {
	Text     string
	Entities []Entity
	Buttons  [][]Button
	At       time.Time // when the message got this content
}

// A Message is one message as a person sees it now.
type Message struct {
	Chat      int64
	ID        int
	N         int  // position among all messages of the server, from 1
	Thread    int  // message_thread_id
	Topic     bool // Thread is a forum topic
	From      Person
	Text      string // text or caption
	Entities  []Entity
	Media     *Media // nil: a text message
	Album     string // media_group_id
	ReplyTo   int
	Quote     string
	Buttons   [][]Button
	Service   string // name of the service field; "": an ordinary message
	Reaction  string // emoji with which a bot reacted
	Silent    bool   // sent without a notification
	Corrected int    // number of entities that the server had to change or drop

	Sent     time.Time
	Edited   time.Time // zero: never
	Deleted  time.Time // zero: not deleted
	Versions []Version // earlier contents, oldest first
}

// A message is a Message with the fields that only the wire format needs.
type message struct {
	Message
	wire   wireMessage // service fields only
	markup json.RawMessage
	quote  *wireQuote
	reply  *message
	sender *Chat // channel posts
}

func (m *message) snapshot() Message {
	out := m.Message
	out.Versions = slices.Clone(m.Versions)
	return out
}

// keepMessages is the number of messages per chat that a server with
// CountersOnly keeps.
const keepMessages = 256

// newMessageLocked appends a new message to the chat.
func (c *Chat) newMessageLocked(from Person) *message {
	next := &c.nextMsg
	if c.kind == Private {
		next = &c.bot.nextMsg
	}
	c.s.messages++
	m := &message{Message: Message{Chat: c.id, ID: *next, N: c.s.messages, From: from, Sent: time.Now()}}
	*next++
	c.msgs[m.ID] = m
	c.order = append(c.order, m.ID)
	if !c.s.recorder.full && len(c.order) > keepMessages {
		delete(c.msgs, c.order[0])
		c.order = c.order[1:]
	}
	return m
}

// liveLocked returns a message that exists and was not deleted, or nil.
func (c *Chat) liveLocked(id int) *message {
	if m := c.msgs[id]; m != nil && m.Deleted.IsZero() {
		return m
	}
	return nil
}

// answerLocked makes m a reply to another message of the chat.
func (c *Chat) answerLocked(m, to *message) {
	m.reply, m.ReplyTo = to, to.ID
	if c.kind == Supergroup && m.Thread == 0 {
		m.Thread, m.Topic = to.Thread, to.Topic
		if m.Thread == 0 {
			m.Thread = to.ID
		}
	}
}

// quotePart makes m quote a part of the message that it replies to. It reports
// false if that message does not contain the part.
func (m *message) quotePart(text string) bool {
	i := strings.Index(m.reply.Text, text)
	if text == "" || i < 0 {
		return false
	}
	m.Quote = text
	m.quote = &wireQuote{Text: text, Position: units(m.reply.Text[:i]), IsManual: true}
	return true
}

// wireLocked returns the message as bot sees it.
func (c *Chat) wireLocked(m *message, bot *Bot) *wireMessage {
	w := c.flatLocked(m, bot)
	switch {
	case m.reply != nil && m.reply.Deleted.IsZero():
		w.ReplyTo = c.flatLocked(m.reply, bot)
	case m.reply == nil && m.Topic && m.ID != m.Thread && m.Service == "":
		if root := c.liveLocked(m.Thread); root != nil { // a message in a topic looks like a reply to the first message of the topic
			w.ReplyTo = c.flatLocked(root, bot)
		}
	}
	return w
}

// flatLocked returns the message without the message that it replies to.
func (c *Chat) flatLocked(m *message, bot *Bot) *wireMessage {
	w := m.wire
	w.MessageID, w.ThreadID, w.IsTopicMessage = m.ID, m.Thread, m.Topic
	w.Chat, w.Date = c.wire(), m.Sent.Unix()
	if !m.Edited.IsZero() {
		w.EditDate = m.Edited.Unix()
	}
	if m.sender != nil {
		sender := m.sender.wire()
		w.SenderChat = &sender
	} else {
		from := m.From
		w.From = &from
	}
	w.MediaGroupID, w.Quote, w.Markup = m.Album, m.quote, m.markup
	switch {
	case m.Media == nil:
		w.Text, w.Entities = m.Text, m.Entities
	default:
		w.Caption, w.CaptionEntities = m.Text, m.Entities
		m.Media.attach(&w, bot)
	}
	return &w
}

// announceLocked offers m to the bots that may see it.
func (c *Chat) announceLocked(m *message, kind string) []int {
	if c.kind == Channel && kind == "message" {
		kind = "channel_post"
	}
	var ids []int
	for _, b := range c.botsLocked() {
		if b.ID() == m.From.ID || m.From.IsBot || !c.seesLocked(b, m) {
			continue
		}
		o := Offer{Chat: c.id, Message: m.ID, From: m.From.ID, Text: m.Text}
		if m.Topic {
			o.Thread = m.Thread
		}
		if id := b.offerLocked(kind, c.wireLocked(m, b), o, c.id); id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// seesLocked reports whether b may see m in privacy mode.
func (c *Chat) seesLocked(b *Bot, m *message) bool {
	if !b.privacy || c.kind == Private || c.kind == Channel || m.Service != "" || c.members[b.ID()] != Member {
		return true
	}
	if m.reply != nil && m.reply.From.ID == b.ID() {
		return true
	}
	for _, e := range m.Entities {
		word := part(m.Text, e)
		switch e.Type {
		case "mention":
			if strings.EqualFold(word, "@"+b.Username()) {
				return true
			}
		case "text_mention":
			if e.User != nil && e.User.ID == b.ID() {
				return true
			}
		case "bot_command":
			_, name, addressed := strings.Cut(word, "@")
			if addressed && strings.EqualFold(name, b.Username()) ||
				!addressed && e.Offset == 0 && (c.talker == 0 || c.talker == b.ID()) {
				return true
			}
		}
	}
	return false
}

// editLocked replaces the content of m and stores the old content as a version.
func (m *message) editLocked(content rich, buttons [][]Button) {
	since := m.Sent
	if !m.Edited.IsZero() {
		since = m.Edited
	}
	m.Versions = append(m.Versions, Version{Text: m.Text, Entities: m.Entities, Buttons: m.Buttons, At: since})
	m.Text, m.Entities, m.Buttons = content.text, content.entities, buttons
	m.Corrected += content.corrected
	m.Edited = time.Now()
}

// String returns the message as one line for test reports.
func (m Message) String() string {
	return fmt.Sprintf("%d/%d %s: %q", m.Chat, m.ID, m.From.FirstName, m.Text)
}
