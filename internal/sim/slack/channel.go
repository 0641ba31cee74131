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

// A Kind is the kind of a channel, in the words of events.
type Kind string

// The kinds of channels.
const (
	Public  Kind = "channel"
	Private Kind = "group"
	DM      Kind = "im"
	GroupDM Kind = "mpim"
)

// noun is the kind in the names of scopes and subscriptions.
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

	// s.mu guards what follows.
	created  time.Time
	archived bool
	readOnly bool
	members  []*User
	msgs     []*message // in the order of ts
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

// AddChannel makes a channel.
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

// GroupDM makes a group direct message.
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

// DM is the direct message of a person with a bot.
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

// ID is the channel's id.
func (c *Channel) ID() string { return c.id }

// Kind is the channel's kind.
func (c *Channel) Kind() Kind { return c.kind }

// Archive archives the channel, or brings it back.
func (c *Channel) Archive(on bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.archived = on
}

// ReadOnly lets only persons post, or everybody again.
func (c *Channel) ReadOnly(on bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.readOnly = on
}

func (c *Channel) hasLocked(u *User) bool { return slices.Contains(c.members, u) }

// nextLocked is the next ts of the channel: the time, and later than all before.
func (c *Channel) nextLocked() string {
	c.last = max(time.Now().UnixMicro(), c.last+1)
	return fmt.Sprintf("%010d.%06d", c.last/1_000_000, c.last%1_000_000)
}

// A Reaction is an emoji under a message.
type Reaction struct {
	Name  string
	Users []string
}

// A Message is a message as it stands.
type Message struct {
	N           int // running number over all channels
	Team        string
	Channel     string
	TS          string
	Thread      string // thread_ts; empty outside of threads
	User        string // its author
	Bot         string // bot_id of its author
	App         string
	To          string // the only one who sees it: ephemeral
	ClientID    string // client_msg_id of persons
	Text        string
	Subtype     string
	Broadcast   bool
	Blocks      json.RawMessage
	Attachments json.RawMessage
	Metadata    json.RawMessage
	Files       []*File
	Reactions   []Reaction
	Bare        bool     // no previews of what it links to
	Versions    []string // what it showed before, oldest first
	Sent        time.Time
	Changed     time.Time // last edit; zero: none
	Deleted     time.Time // zero: it stands
}

// Shown is what people read: the text of the blocks if it has any, else the text.
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
	replies []*message // in the thread that it is the root of
}

// Messages returns all messages, also deleted ones, in the order of ts.
func (c *Channel) Messages() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.selectLocked(func(*message) bool { return true })
}

// FromBots returns what the server's apps have said and still stands, in order.
func (c *Channel) FromBots() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.selectLocked((*message).isAnswer)
}

// isAnswer tells whether an app has said it, and it still stands.
func (m *message) isAnswer() bool {
	return m.Deleted.IsZero() && m.author.bot != nil && m.Subtype != "tombstone" && m.Subtype != "assistant_app_thread"
}

// Thread returns the messages that stand in a thread, its root first.
func (c *Channel) Thread(ts string) []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.selectLocked(func(m *message) bool { return m.Deleted.IsZero() && (m.TS == ts || m.Thread == ts) })
}

// Ephemeral returns what bots showed to single users.
func (c *Channel) Ephemeral() []Message {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return slices.Clone(c.hidden)
}

// Status is what stands under an assistant thread while the app works; ""
// when nothing does.
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
// returns it.
func (c *Channel) WaitText(ctx context.Context, part string) (Message, error) {
	var found Message
	err := c.s.ledger.WaitFor(ctx, func(*Ledger) bool {
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

// kept is how many messages a channel remembers with CountersOnly.
const kept = 1000

// newLocked makes a message of an author and puts it into the channel.
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

// liveLocked is the message that stands at ts.
func (c *Channel) liveLocked(ts string) *message {
	if m := c.byTS[ts]; m != nil && m.Deleted.IsZero() {
		return m
	}
	return nil
}

// joinLocked puts a new message into the thread of a root; "" is none.
func (m *message) joinLocked(root string) {
	m.Thread = root
	if r := m.channel.byTS[root]; r != nil {
		r.replies = append(r.replies, m)
	}
}

// repliesLocked are the messages that stand in the thread of a root.
func (m *message) repliesLocked() []*message {
	var out []*message
	for _, r := range m.replies {
		if r.Deleted.IsZero() {
			out = append(out, r)
		}
	}
	return out
}
