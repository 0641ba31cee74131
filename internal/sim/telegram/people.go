package telegram

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// A User is a person, or the user account of a bot.
type User struct {
	s      *Server
	person Person
	bot    *Bot

	// s.mu guards the fields below.
	blocked map[int64]bool // by bot ID
	gone    bool           // account deleted
}

// AddUser creates a person; an ID of 0 is replaced by a generated one.
func (s *Server) AddUser(p Person) *User {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ID == 0 {
		s.nextUser++
		p.ID = 100_000 + s.nextUser
	}
	if p.FirstName == "" {
		p.FirstName = fmt.Sprintf("Person %d", p.ID)
	}
	if s.people[p.ID] != nil {
		panic("telegram: the person exists already")
	}
	u := &User{s: s, person: p, blocked: map[int64]bool{}}
	s.people[p.ID] = u
	return u
}

// ID returns the ID of the user.
func (u *User) ID() int64 { return u.person.ID }

// Person returns the user as bots see it.
func (u *User) Person() Person { return u.person }

// User returns the bot as a member of chats.
func (b *Bot) User() *User {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.s.people[b.ID()]
}

// Chat returns the private chat with a bot. The first call creates it, as when
// a person presses Start; the bot receives no update until Post.
func (u *User) Chat(b *Bot) *Chat {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if c := b.private[u.ID()]; c != nil {
		return c
	}
	c := &Chat{
		s: u.s, id: u.ID(), kind: Private, bot: b, peer: u, msgs: map[int]*message{}, topics: map[int]string{},
		members: map[int64]Status{u.ID(): Member, b.ID(): Member},
	}
	b.private[u.ID()] = c
	u.s.rooms = append(u.s.rooms, c)
	return c
}

// Block blocks or unblocks a bot; the bot receives an update.
func (u *User) Block(b *Bot, on bool) {
	c := u.Chat(b)
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if u.blocked[b.ID()] == on {
		return
	}
	u.blocked[b.ID()] = on
	old, st := Member, Kicked
	if !on {
		old, st = st, old
	}
	c.tellMemberLocked(u, u.s.people[b.ID()], old, st)
}

// Deactivate deletes the account of the person.
func (u *User) Deactivate() {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.gone = true
}

// A Post is a message that a person sends.
type Post struct {
	From     *User // nil: the channel itself in a channel, the person in a private chat
	Text     string
	Entities []Entity // in addition to mentions, commands and links, which are found
	Media    *Media   // if set, Text is the caption
	Album    string   // media_group_id
	Thread   int      // forum topic; 0: none, or General
	ReplyTo  int
	Quote    string // the quoted part of the message that is replied to
}

// Post sends p to the chat: it becomes a message that is offered to the bots
// that may see it. It does not check whether a client would allow the message.
func (c *Chat) Post(p Post) Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.postLocked(p).snapshot()
}

// Say posts a text.
func (c *Chat) Say(from *User, text string) Message { return c.Post(Post{From: from, Text: text}) }

func (c *Chat) postLocked(p Post) *message {
	var from Person
	switch {
	case p.From != nil:
		from = p.From.person
	case c.peer != nil:
		from = c.peer.person
	}
	m := c.newMessageLocked(from)
	if p.From == nil && c.kind == Channel {
		m.sender = c
	}
	m.Text, m.Media, m.Album, m.Thread = p.Text, p.Media, p.Album, p.Thread
	m.Topic = p.Thread != 0
	m.Entities = addFound(p.Entities, find(p.Text))
	sortEntities(m.Entities)
	if p.Media != nil {
		p.Media.store(c.s)
	}
	if to := c.msgs[p.ReplyTo]; to != nil {
		c.answerLocked(m, to)
		m.quotePart(p.Quote)
	}
	c.announceLocked(m, "message")
	return m
}

// SayLong sends a text as a client does: split into messages of at most 4096
// UTF-16 units, at line ends or spaces if possible.
func (c *Chat) SayLong(from *User, text string) []Message {
	var out []Message
	for _, piece := range clientSplit(text) {
		out = append(out, c.Say(from, piece))
	}
	return out
}

func clientSplit(text string) []string {
	var out []string
	u := utf16.Encode([]rune(text))
	for len(u) > maxText {
		cut := maxText
		if i := lastBlank(u[:cut]); i > maxText/2 {
			cut = i + 1
		} else if utf16.IsSurrogate(rune(u[cut-1])) && u[cut-1] < 0xdc00 {
			cut--
		}
		out = append(out, strings.TrimRight(string(utf16.Decode(u[:cut])), " \n"))
		u = u[cut:]
	}
	return append(out, string(utf16.Decode(u)))
}

func lastBlank(u []uint16) int {
	for i := len(u) - 1; i >= 0; i-- {
		if u[i] == '\n' || u[i] == ' ' {
			return i
		}
	}
	return -1
}

// Album sends several media as one album; the first one has the caption.
func (c *Chat) Album(from *User, caption string, media ...*Media) []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	album := c.albumLocked()
	var out []Message
	for _, m := range media {
		out = append(out, c.postLocked(Post{From: from, Text: caption, Media: m, Album: album}).snapshot())
		caption = ""
	}
	return out
}

func (c *Chat) albumLocked() string {
	c.nextItem++
	return fmt.Sprintf("%d%04d", 13_000_000_000_000_000+abs(c.id), c.nextItem)
}

func abs(n int64) int64 { return max(n, -n) }

// ErrNoMessage reports that the message does not exist or has no such button.
var ErrNoMessage = errors.New("telegram: no such message")

// Edit changes the text or caption of a person's message. It returns
// ErrNoMessage if there is none.
func (c *Chat) Edit(id int, text string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(id)
	if m == nil || m.From.IsBot {
		return ErrNoMessage
	}
	m.editLocked(rich{text: text, entities: find(text)}, nil)
	kind := "edited_message"
	if c.kind == Channel {
		kind = "edited_channel_post"
	}
	c.announceLocked(m, kind)
	return nil
}

// Delete deletes a message, as a person may. Bots receive no update.
func (c *Chat) Delete(id int) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(id)
	if m == nil {
		return ErrNoMessage
	}
	m.Deleted = time.Now()
	c.s.recorder.note(func(*Counts) {})
	return nil
}

// Press presses the button with the given data under a message and returns the
// ID of the callback query. It returns ErrNoMessage if there is no such button.
func (c *Chat) Press(from *User, id int, data string) (string, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(id)
	if m == nil || !slices.ContainsFunc(m.Buttons, func(row []Button) bool {
		return slices.ContainsFunc(row, func(b Button) bool { return b.Data == data })
	}) {
		return "", ErrNoMessage
	}
	author := c.s.people[m.From.ID]
	if author == nil || author.bot == nil {
		return "", ErrNoMessage
	}
	return c.pressLocked(author.bot, from, m.ID, data), nil
}

// Forge sends bot a callback query as Press does, but with any data and for any
// message, even one that was deleted. It returns the ID of the query.
func (c *Chat) Forge(b *Bot, from *User, id int, data string) string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.pressLocked(b, from, id, data)
}

func (c *Chat) pressLocked(b *Bot, from *User, id int, data string) string {
	c.s.nextQuery++
	cb := wireCallback{
		ID:           fmt.Sprintf("%d%06d", 4_300_000_000_000+from.ID(), c.s.nextQuery),
		From:         from.person,
		ChatInstance: fmt.Sprint(-abs(c.id) * 7919),
		Data:         data,
	}
	if m := c.liveLocked(id); m != nil {
		cb.Message = c.wireLocked(m, b)
	} else {
		cb.Message = wireInaccessible{Chat: c.wire(), MessageID: id}
	}
	b.callbacks[cb.ID] = time.Now().Add(c.s.opts.CallbackLife)
	o := Offer{Chat: c.id, Message: id, From: from.ID(), Text: data}
	b.offerLocked("callback_query", cb, o, from.ID())
	return cb.ID
}

// React sets the reaction of a person to a message; "" removes it. Bots receive
// an update if they are administrators and asked for message_reaction.
func (c *Chat) React(from *User, id int, emoji string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.liveLocked(id) == nil {
		return ErrNoMessage
	}
	up := wireReactionUpdate{
		Chat: c.wire(), MessageID: id, User: from.person, Date: time.Now().Unix(),
		Old: []wireReaction{}, New: []wireReaction{},
	}
	if emoji != "" {
		up.New = append(up.New, wireReaction{Type: "emoji", Emoji: emoji})
	}
	for _, b := range c.botsLocked() {
		if c.kind == Private || c.members[b.ID()] == Admin {
			b.offerLocked("message_reaction", up, Offer{Chat: c.id, Message: id, From: from.ID(), Text: emoji}, c.id)
		}
	}
	return nil
}
