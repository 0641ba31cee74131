package telegram

import (
	"context"
	"slices"
	"strings"
	"time"
)

// A ChatType is the type of a chat, as the Bot API spells it.
type ChatType string

// Types of chats.
const (
	Private    ChatType = "private"
	Group      ChatType = "group"
	Supergroup ChatType = "supergroup"
	Channel    ChatType = "channel"
)

// A Status is the status of a member of a chat, as the Bot API spells it.
type Status string

// Statuses of chat members.
const (
	Creator Status = "creator"
	Admin   Status = "administrator"
	Member  Status = "member"
	Left    Status = "left"
	Kicked  Status = "kicked"
)

func (st Status) inside() bool { return st == Creator || st == Admin || st == Member }

// A Chat is a conversation. A private chat belongs to one bot and one person
// and has the ID of the person; all other chats are shared between bots.
type Chat struct {
	s    *Server
	id   int64
	kind ChatType
	bot  *Bot  // of a private chat
	peer *User // of a private chat

	// s.mu guards the fields below.
	title    string
	username string
	forum    bool
	members  map[int64]Status
	topics   map[int]string
	upgraded int64 // ID of the supergroup that this group became
	msgs     map[int]*message
	order    []int
	nextMsg  int
	talker   int64 // ID of the bot that sent the last message
	draft    string
	nextItem int // next album ID
}

// ChatOptions describe a shared chat.
type ChatOptions struct {
	Type     ChatType // default Group
	ID       int64    // default: generated, in the range of the type
	Title    string
	Username string // of a public supergroup or channel
	Forum    bool   // has topics; implies Supergroup
	Members  []*User
	Bots     []*Bot // bots that are members
	Admins   []*Bot // bots that are administrators
}

// AddChat creates a group, supergroup or channel. Its first members join
// without updates.
func (s *Server) AddChat(o ChatOptions) *Chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Type == "" {
		o.Type = Group
	}
	if o.Forum {
		o.Type = Supergroup
	}
	if o.Title == "" {
		o.Title = "A " + string(o.Type)
	}
	c := s.newChatLocked(o.Type, o.ID)
	c.title, c.username, c.forum = o.Title, o.Username, o.Forum
	for i, u := range o.Members {
		c.members[u.ID()] = Member
		if i == 0 {
			c.members[u.ID()] = Creator
		}
	}
	for _, b := range o.Bots {
		c.members[b.ID()] = Member
	}
	for _, b := range o.Admins {
		c.members[b.ID()] = Admin
	}
	if c.kind == Channel {
		for _, b := range o.Bots {
			c.members[b.ID()] = Admin
		}
	}
	return c
}

func (s *Server) newChatLocked(kind ChatType, id int64) *Chat {
	if id == 0 {
		s.nextChat++
		id = -s.nextChat
		if kind != Group {
			id = -1_000_000_000_000 - s.nextChat
		}
	}
	if s.chats[id] != nil {
		panic("telegram: the chat exists already")
	}
	c := &Chat{
		s: s, id: id, kind: kind, members: map[int64]Status{}, topics: map[int]string{},
		msgs: map[int]*message{}, nextMsg: 1,
	}
	if kind == Supergroup || kind == Channel {
		c.nextMsg = 2 // 1 is the creation message; in a forum it is the General topic
	}
	s.chats[id] = c
	s.rooms = append(s.rooms, c)
	return c
}

// ID returns the ID of the chat.
func (c *Chat) ID() int64 { return c.id }

// Type returns the type of the chat.
func (c *Chat) Type() ChatType { return c.kind }

// Chats returns all chats in the order of their creation.
func (s *Server) Chats() []*Chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rooms)
}

// Messages returns all messages ever sent in the chat, deleted ones too, in
// order and in their current state.
func (c *Chat) Messages() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	out := make([]Message, 0, len(c.order))
	for _, id := range c.order {
		out = append(out, c.msgs[id].snapshot())
	}
	return out
}

// Visible returns the messages that were not deleted.
func (c *Chat) Visible() []Message {
	return slices.DeleteFunc(c.Messages(), func(m Message) bool { return !m.Deleted.IsZero() })
}

// FromBots returns the visible messages of bots, without service messages.
func (c *Chat) FromBots() []Message {
	return slices.DeleteFunc(c.Visible(), func(m Message) bool { return !m.From.IsBot || m.Service != "" })
}

// Message returns one message, deleted or not; false if there never was one
// with this ID.
func (c *Chat) Message(id int) (Message, bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.msgs[id]
	if m == nil {
		return Message{}, false
	}
	return m.snapshot(), true
}

// Draft returns the text of the draft that a bot currently streams; "" if there
// is none.
func (c *Chat) Draft() string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.draft
}

// WaitFor waits until ok returns true for the visible messages of bots and
// returns these messages. Like Recorder.WaitFor it calls ok after changes, never
// on a timer.
func (c *Chat) WaitFor(ctx context.Context, ok func([]Message) bool) ([]Message, error) {
	var seen []Message
	err := c.s.recorder.WaitFor(ctx, func(*Recorder) bool {
		seen = c.FromBots()
		return ok(seen)
	})
	return seen, err
}

// WaitText waits for a visible message of a bot that contains text and returns
// it.
func (c *Chat) WaitText(ctx context.Context, text string) (Message, error) {
	var found Message
	_, err := c.WaitFor(ctx, func(list []Message) bool {
		i := slices.IndexFunc(list, func(m Message) bool { return strings.Contains(m.Text, text) })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	})
	return found, err
}

// AddTopic creates a forum topic with its service message and returns the
// thread ID. In a private chat the bot must have topics enabled.
func (c *Chat) AddTopic(from *User, name string) int {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.addTopicLocked(from.person, name)
}

func (c *Chat) addTopicLocked(from Person, name string) int {
	m := c.newMessageLocked(from)
	m.Service, m.Thread, m.Topic = "forum_topic_created", m.ID, true
	m.wire.TopicCreated = &wireTopic{Name: name, IconColor: 7322096}
	c.topics[m.ID] = name
	c.announceLocked(m, "message")
	return m.ID
}

// Upgrade turns a group into a supergroup and returns it. It sends two service
// messages; afterwards every call to the old ID fails with the new ID.
func (c *Chat) Upgrade(by *User) *Chat {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	next := c.s.newChatLocked(Supergroup, 0)
	next.title = c.title
	for id, st := range c.members {
		next.members[id] = st
	}
	c.upgraded = next.id
	m := c.newMessageLocked(by.person)
	m.Service, m.wire.MigrateTo = "migrate_to_chat_id", next.id
	c.announceLocked(m, "message")
	m = next.newMessageLocked(by.person)
	m.Service, m.wire.MigrateFrom = "migrate_from_chat_id", c.id
	next.announceLocked(m, "message")
	return next
}

// SetStatus changes the status of u in the chat, for example to member,
// administrator or left. The bots that the Bot API would inform receive
// updates.
func (c *Chat) SetStatus(by, u *User, st Status) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	old := c.statusLocked(u.ID())
	c.members[u.ID()] = st
	if c.kind != Private && c.kind != Channel && old.inside() != st.inside() {
		m := c.newMessageLocked(by.person)
		if st.inside() {
			m.Service, m.wire.NewChatMembers = "new_chat_members", []Person{u.person}
		} else {
			m.Service, m.wire.LeftChatMember = "left_chat_member", &u.person
		}
		c.announceLocked(m, "message")
	}
	c.tellMemberLocked(by, u, old, st)
}

func (c *Chat) statusLocked(id int64) Status {
	if st, ok := c.members[id]; ok {
		return st
	}
	return Left
}

func (c *Chat) tellMemberLocked(by, u *User, old, st Status) {
	up := wireMemberUpdate{
		Chat: c.wire(), From: by.person, Date: time.Now().Unix(),
		Old: wireMember{Status: string(old), User: u.person}, New: wireMember{Status: string(st), User: u.person},
	}
	o := Offer{Chat: c.id, From: by.ID()}
	if u.bot != nil {
		u.bot.offerLocked("my_chat_member", up, o, c.id)
	}
	for _, b := range c.botsLocked() {
		if b != u.bot && c.members[b.ID()] != Member {
			b.offerLocked("chat_member", up, o, c.id)
		}
	}
}

// botsLocked returns the bots in the chat, in the order of their IDs.
func (c *Chat) botsLocked() []*Bot {
	if c.kind == Private {
		return []*Bot{c.bot}
	}
	var out []*Bot
	for id, st := range c.members {
		if u := c.s.people[id]; st.inside() && u != nil && u.bot != nil {
			out = append(out, u.bot)
		}
	}
	slices.SortFunc(out, func(a, b *Bot) int { return int(a.ID() - b.ID()) })
	return out
}

func (c *Chat) wire() wireChat {
	w := wireChat{ID: c.id, Type: string(c.kind), Title: c.title, Username: c.username, IsForum: c.forum}
	if c.peer != nil {
		p := c.peer.person
		w.Title, w.Username, w.FirstName, w.LastName = "", p.Username, p.FirstName, p.LastName
	}
	return w
}
