package discord

import (
	"errors"
	"slices"
	"time"
)

// A Post is a message that a person sends.
type Post struct {
	Text    string
	ReplyTo string // ID of a message in the channel
	Silent  bool   // a reply that does not notify the author
	Files   []File // Name and Data are required; Type defaults to a guess
}

// ErrNoMessage reports that the message does not exist or has no such button.
var ErrNoMessage = errors.New("discord: no such message")

// Post sends p to the channel: it becomes a message that is offered to the bots
// that may see it. It does not check whether a client would allow the message.
func (c *Channel) Post(from *User, p Post) Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.wakeLocked()
	m := c.newMessageLocked(from, p.Text)
	if to := c.byID[p.ReplyTo]; to != nil {
		m.Type, m.ReplyTo, m.reply = TypeReply, to.ID, to
	}
	rights := c.permsLocked(from)
	if p.Silent {
		m.mentionLocked(&allowed{Parse: []string{"users", "roles", "everyone"}}, rights)
	} else {
		m.mentionLocked(nil, rights)
	}
	for _, f := range p.Files {
		m.attachLocked(&File{Name: f.Name, Type: f.Type, Data: f.Data})
	}
	if c.isThread() {
		c.inThread[from.ID] = true
	}
	m.announceLocked("MESSAGE_CREATE")
	return m.snapshot()
}

// Say posts a text.
func (c *Channel) Say(from *User, text string) Message { return c.Post(from, Post{Text: text}) }

// Reply posts a text as a reply to a message.
func (c *Channel) Reply(from *User, to, text string) Message {
	return c.Post(from, Post{Text: text, ReplyTo: to})
}

// Joined adds the message that announces a new member; it has no text.
func (c *Channel) Joined(who *User) Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.newMessageLocked(who, "")
	m.Type = TypeJoin
	m.announceLocked("MESSAGE_CREATE")
	return m.snapshot()
}

// touch applies do to a message that was not deleted.
func (c *Channel) touch(id string, do func(*message)) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(id)
	if m == nil {
		return ErrNoMessage
	}
	do(m)
	c.s.recorder.note(func(*Counts) {})
	return nil
}

// Edit changes the text of a person's message. It returns ErrNoMessage if there
// is none.
func (c *Channel) Edit(id, text string) error {
	return c.touch(id, func(m *message) {
		m.editLocked(text)
		m.mentionLocked(nil, c.permsLocked(m.From))
		m.announceLocked("MESSAGE_UPDATE")
	})
}

// Unfurl sends an update of a message without an edit, as when a link preview
// is added.
func (c *Channel) Unfurl(id string) error {
	return c.touch(id, func(m *message) { m.announceLocked("MESSAGE_UPDATE") })
}

// Delete deletes a message. It returns ErrNoMessage if there is none.
func (c *Channel) Delete(id string) error { return c.touch(id, (*message).deleteLocked) }

// Redeliver offers a message again as if it were new.
func (c *Channel) Redeliver(id string) error {
	return c.touch(id, func(m *message) { m.announceLocked("MESSAGE_CREATE") })
}

// React adds a reaction of a person to a message.
func (c *Channel) React(from *User, id, emoji string) error {
	return c.touch(id, func(m *message) { m.reactLocked(from, emoji, true) })
}

// Type shows the typing indicator of a person.
func (c *Channel) Type(from *User) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	w := obj{"channel_id": c.id, "user_id": from.ID, "timestamp": time.Now().Unix()}
	intent := IntentGuildTyping
	if c.guild == nil {
		intent = IntentDirectTyping
	} else {
		w["guild_id"] = c.guild.id
	}
	for _, b := range c.botsLocked() {
		b.dispatchLocked("TYPING_START", intent, Offer{Channel: c.id, From: from.ID}, func(view) obj { return w })
	}
}

// Thread starts a thread as a person: without a message, or from a message of
// the channel, which can have only one.
func (c *Channel) Thread(from *User, name, message string) (*Channel, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if message == "" {
		return c.threadLocked(from, thread{Name: name}), nil
	}
	m := c.liveLocked(message)
	if m == nil || m.Thread != "" {
		return nil, ErrNoMessage
	}
	return m.threadLocked(from, thread{Name: name}), nil
}

// ForumPost starts a thread in a forum with its first message.
func (c *Channel) ForumPost(from *User, name, text string) *Channel {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	t := c.threadLocked(from, thread{Name: name})
	m := t.firstLocked(from, text)
	m.mentionLocked(nil, t.permsLocked(from))
	m.announceLocked("MESSAGE_CREATE")
	return t
}

// Archive archives the thread and optionally locks it.
func (c *Channel) Archive(locked bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.archived, c.locked, c.archivedAt = true, locked, time.Now()
	c.updatedLocked()
}

// Threads returns the threads of the channel that were not removed.
func (c *Channel) Threads() []*Channel {
	return slices.DeleteFunc(c.s.Channels(), func(t *Channel) bool { return t.parent != c })
}
