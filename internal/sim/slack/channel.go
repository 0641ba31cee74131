package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Kind is the kind of a channel, as events spell it.
type Kind string

// Kinds of channels.
const (
	Public  Kind = "channel"
	Private Kind = "group"
	DM      Kind = "im"
	GroupDM Kind = "mpim"
)

// noun returns the kind as the names of scopes and subscriptions spell it.
func (k Kind) noun() string {
	switch k {
	case Public:
		return "channels"
	case Private:
		return "groups"
	}
	return string(k)
}

// A Channel is a public or private channel, a direct message or a group direct
// message.
type Channel struct {
	s    *Server
	team *Team
	id   string
	name string
	kind Kind

	// s.mu guards the fields below.
	created  time.Time
	archived bool
	readOnly bool
	members  []*User
	msgs     []*message // in the order of their ts
	byTS     map[string]*message
	last     int64 // the newest ts, in microseconds
	hidden   []Message
	status   map[string]string // of assistant threads
}

// ChannelOptions describe a channel.
type ChannelOptions struct {
	Name    string
	Private bool
	Members []*User // the bot of an app is bot.User()
}

// AddChannel creates a channel.
func (t *Team) AddChannel(o ChannelOptions) *Channel {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	kind := Public
	if o.Private {
		kind = Private
	}
	c := t.addChannelLocked("C", kind, o.Members)
	c.name = cmp.Or(o.Name, strings.ToLower(c.id))
	return c
}

// GroupDM creates a group direct message.
func (t *Team) GroupDM(members ...*User) *Channel {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.groupLocked(members)
}

func (t *Team) groupLocked(members []*User) *Channel {
	c := t.addChannelLocked("C", GroupDM, members)
	names := make([]string, len(members))
	for i, u := range members {
		names[i] = u.person.Name
	}
	c.name = "mpdm-" + strings.Join(names, "--") + "-1"
	return c
}

// DM returns the direct message channel of a person with a bot. The first call
// creates it.
func (u *User) DM(b *Bot) *Channel {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	return u.dmLocked(b.user)
}

func (u *User) dmLocked(other *User) *Channel {
	if c := u.dms[other.ID()]; c != nil {
		return c
	}
	c := u.team.addChannelLocked("D", DM, []*User{u, other})
	u.dms[other.ID()], other.dms[u.ID()] = c, c
	return c
}

func (t *Team) addChannelLocked(prefix string, kind Kind, members []*User) *Channel {
	c := &Channel{
		s: t.s, team: t, id: t.s.idLocked(prefix), kind: kind, created: time.Now(),
		members: slices.Clone(members), byTS: map[string]*message{}, status: map[string]string{},
	}
	t.s.channels[c.id] = c
	return c
}

// ID returns the ID of the channel.
func (c *Channel) ID() string { return c.id }

// Kind returns the kind of the channel.
func (c *Channel) Kind() Kind { return c.kind }

// Archive archives or unarchives the channel.
func (c *Channel) Archive(on bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.archived = on
}

// ReadOnly allows only persons to post, or everyone again.
func (c *Channel) ReadOnly(on bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.readOnly = on
}

func (c *Channel) hasLocked(u *User) bool { return slices.Contains(c.members, u) }

// nextLocked returns the ts for the next message of the channel: the current
// time, but later than all earlier ts.
func (c *Channel) nextLocked() string {
	c.last = max(time.Now().UnixMicro(), c.last+1)
	return fmt.Sprintf("%010d.%06d", c.last/1_000_000, c.last%1_000_000)
}

// A Reaction is an emoji on a message with its users.
type Reaction struct {
	Name  string
	Users []string
}

// A Message is a message in its current state.
type Message struct {
	N           int // running number across all channels
	Team        string
	Channel     string
	TS          string
	Thread      string // thread_ts; "" outside of threads
	User        string // user ID of the author
	Bot         string // bot_id of the author
	App         string
	To          string // ephemeral message: the user ID of the only reader
	ClientID    string // client_msg_id of messages of persons
	Text        string
	Subtype     string
	Broadcast   bool
	Blocks      json.RawMessage
	Attachments json.RawMessage
	Metadata    json.RawMessage
	Files       []*File
	Reactions   []Reaction
	Bare        bool     // link previews are suppressed
	Versions    []string // earlier contents, oldest first
	Sent        time.Time
	Changed     time.Time // last edit; zero: none
	Deleted     time.Time // zero: not deleted
}

// Shown returns the displayed text: the text of the blocks if it is not empty,
// else the text.
func (m Message) Shown() string {
	if len(m.Blocks) > 0 {
		if text := strings.Join(blockTexts(m.Blocks), "\n"); text != "" {
			return text
		}
	}
	return m.Text
}

type message struct {
	Message
	channel *Channel
	author  *User
	replies []*message // replies in the thread of which it is the root
}

// Messages returns all messages, including deleted ones, in the order of their
// ts.
func (c *Channel) Messages() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.selectLocked(func(*message) bool { return true })
}

// FromBots returns the messages of the server's apps that were not deleted, in
// order.
func (c *Channel) FromBots() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.selectLocked((*message).isAnswer)
}

// isAnswer reports whether an app sent the message and it was not deleted.
func (m *message) isAnswer() bool {
	return m.Deleted.IsZero() && m.author.bot != nil && m.Subtype != "tombstone" && m.Subtype != "assistant_app_thread"
}

// Thread returns the messages of a thread that were not deleted, its root
// first.
func (c *Channel) Thread(ts string) []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.selectLocked(func(m *message) bool { return m.Deleted.IsZero() && (m.TS == ts || m.Thread == ts) })
}

// Ephemeral returns the messages that bots showed to single users.
func (c *Channel) Ephemeral() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return slices.Clone(c.hidden)
}

// Status returns the status that an assistant thread shows while the app works;
// "" if it shows none.
func (c *Channel) Status(thread string) string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.status[thread]
}

func (c *Channel) selectLocked(want func(*message) bool) []Message {
	var out []Message
	for _, m := range c.msgs {
		if want(m) {
			out = append(out, m.snapshot())
		}
	}
	return out
}

func (m *message) snapshot() Message {
	out := m.Message
	out.Files, out.Versions = slices.Clone(out.Files), slices.Clone(out.Versions)
	out.Reactions = slices.Clone(out.Reactions)
	for i, r := range out.Reactions {
		out.Reactions[i].Users = slices.Clone(r.Users)
	}
	return out
}

// WaitText waits until a message of a bot shows a text that contains part, and
// returns the message.
func (c *Channel) WaitText(ctx context.Context, part string) (Message, error) {
	var found Message
	err := c.s.recorder.WaitFor(ctx, func(*Recorder) bool {
		for _, m := range c.FromBots() {
			if strings.Contains(m.Shown(), part) {
				found = m
				return true
			}
		}
		return false
	})
	return found, err
}

// kept is the number of messages per channel that a server with CountersOnly
// keeps.
const kept = 1000

// newLocked appends a new message of an author to the channel.
func (c *Channel) newLocked(author *User) *message {
	c.s.messages++
	m := &message{channel: c, author: author}
	m.N, m.Team, m.Channel, m.TS, m.Sent = c.s.messages, c.team.id, c.id, c.nextLocked(), time.Now()
	m.User = author.ID()
	if author.isBot() {
		m.Bot = author.botID
	}
	if author.bot != nil {
		m.App = author.bot.app.id
	}
	c.msgs = append(c.msgs, m)
	c.byTS[m.TS] = m
	if c.s.opts.CountersOnly && len(c.msgs) > 2*kept {
		for _, old := range c.msgs[:kept] {
			delete(c.byTS, old.TS)
		}
		c.msgs = slices.Clone(c.msgs[kept:])
	}
	return m
}

// liveLocked returns the message at ts, or nil if there is none or it was
// deleted.
func (c *Channel) liveLocked(ts string) *message {
	if m := c.byTS[ts]; m != nil && m.Deleted.IsZero() {
		return m
	}
	return nil
}

// joinLocked adds a new message to the thread of a root; "" means no thread.
func (m *message) joinLocked(root string) {
	m.Thread = root
	if r := m.channel.byTS[root]; r != nil {
		r.replies = append(r.replies, m)
	}
}

// repliesLocked returns the replies to a root that were not deleted.
func (m *message) repliesLocked() []*message {
	var out []*message
	for _, r := range m.replies {
		if r.Deleted.IsZero() {
			out = append(out, r)
		}
	}
	return out
}
