package discord

import (
	"slices"
	"strconv"
	"time"
)

// A ChannelKind is the type of a channel; the values are those of Discord.
type ChannelKind int

// Kinds of channels.
const (
	Text               ChannelKind = 0
	DirectMessage      ChannelKind = 1
	Voice              ChannelKind = 2
	Category           ChannelKind = 4
	Announcement       ChannelKind = 5
	AnnouncementThread ChannelKind = 10
	PublicThread       ChannelKind = 11
	PrivateThread      ChannelKind = 12
	Forum              ChannelKind = 15
)

// ChannelOptions describe a channel of a guild.
type ChannelOptions struct {
	Name  string
	Kind  ChannelKind // default: Text
	Topic string
}

// A Channel contains messages: a guild channel, a thread or a direct message
// channel.
type Channel struct {
	s      *Server
	id     string
	kind   ChannelKind
	guild  *Guild   // nil for direct messages
	parent *Channel // of a thread
	bot    *Bot     // of a direct chat
	peer   *User    // of a direct chat
	owner  *User    // of a thread
	made   time.Time

	// s.mu guards the fields below.
	name       string
	topic      string
	overwrites []*overwrite
	archived   bool
	locked     bool
	archivedAt time.Time
	archiving  int             // in minutes
	inThread   map[string]bool // member IDs of a thread
	msgs       []*message      // in the order of their IDs
	byID       map[string]*message
	typing     int
}

// AddChannel creates a channel in the guild. Bots that may see it receive an
// event.
func (g *Guild) AddChannel(o ChannelOptions) *Channel {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	c := g.s.newChannelLocked(g, o)
	c.announceLocked("CHANNEL_CREATE", IntentGuilds, c.wireLocked)
	return c
}

func (s *Server) newChannelLocked(g *Guild, o ChannelOptions) *Channel {
	c := &Channel{s: s, id: s.newIDLocked(), kind: o.Kind, guild: g, name: o.Name, topic: o.Topic, byID: map[string]*message{}}
	c.made = time.Now()
	s.channels[c.id] = c
	s.order = append(s.order, c)
	return c
}

// ID returns the ID of the channel.
func (c *Channel) ID() string { return c.id }

// Kind returns the type of the channel.
func (c *Channel) Kind() ChannelKind { return c.kind }

// Guild returns the guild of the channel; nil for direct messages.
func (c *Channel) Guild() *Guild { return c.guild }

// Parent returns the channel of a thread; nil for other channels.
func (c *Channel) Parent() *Channel { return c.parent }

// Name returns the name of the channel.
func (c *Channel) Name() string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.name
}

// Archived reports whether a thread is archived, and whether it is locked.
func (c *Channel) Archived() (archived, locked bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.archived, c.locked
}

// Typed returns how many times bots have shown the typing indicator.
func (c *Channel) Typed() int {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.typing
}

// Channels returns all channels that were not removed, including threads and
// direct message channels, in the order of their creation.
func (s *Server) Channels() []*Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// Remove deletes the channel with its threads. Bots receive events.
func (c *Channel) Remove() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.removeLocked()
}

func (c *Channel) removeLocked() {
	for _, t := range slices.Clone(c.s.order) {
		if t.parent == c {
			t.removeLocked()
		}
	}
	kind := "CHANNEL_DELETE"
	if c.isThread() {
		kind = "THREAD_DELETE"
	}
	c.announceLocked(kind, IntentGuilds, c.wireLocked)
	delete(c.s.channels, c.id)
	c.s.order = slices.DeleteFunc(c.s.order, func(o *Channel) bool { return o == c })
}

func (c *Channel) isThread() bool { return c.kind >= AnnouncementThread && c.kind <= PrivateThread }

// takesMessages reports whether the channel itself can contain messages.
func (c *Channel) takesMessages() bool { return c.kind != Forum && c.kind != Category }

// botsLocked returns the bots that may see the channel.
func (c *Channel) botsLocked() []*Bot {
	if c.guild == nil {
		return []*Bot{c.bot}
	}
	return slices.DeleteFunc(c.guild.botsLocked(), func(b *Bot) bool { return c.permsLocked(b.user)&ViewChannel == 0 })
}

// announceLocked offers an event about the channel to the bots that may see it.
func (c *Channel) announceLocked(kind string, intent Intent, render func(view) obj) {
	if c.guild == nil && (kind == "CHANNEL_CREATE" || kind == "CHANNEL_UPDATE") {
		return // bots receive no events about direct message channels
	}
	for _, b := range c.botsLocked() {
		b.dispatchLocked(kind, intent, Offer{Channel: c.id}, render)
	}
}

func decimal(p Permission) string { return strconv.FormatInt(int64(p), 10) }

// wireLocked returns the channel as a bot sees it.
func (c *Channel) wireLocked(view) obj {
	w := obj{"id": c.id, "type": int(c.kind), "last_message_id": nil, "flags": 0}
	for _, m := range slices.Backward(c.msgs) {
		if m.Deleted.IsZero() && !m.Ephemeral {
			w["last_message_id"] = m.ID
			break
		}
	}
	if c.guild == nil {
		w["recipients"] = []obj{c.peer.wire()}
		return w
	}
	overwrites := []obj{}
	for _, o := range c.overwrites {
		kind := 0
		if o.user {
			kind = 1
		}
		overwrites = append(overwrites, obj{"id": o.id, "type": kind, "allow": decimal(o.allow), "deny": decimal(o.deny)})
	}
	w["guild_id"], w["name"], w["topic"], w["position"], w["nsfw"] = c.guild.id, c.name, c.topic, 0, false
	w["permission_overwrites"], w["parent_id"] = overwrites, nil
	if c.isThread() {
		w["parent_id"], w["owner_id"] = c.parent.id, c.owner.ID
		w["message_count"], w["member_count"] = len(c.msgs), len(c.inThread)
		w["thread_metadata"] = obj{
			"archived": c.archived, "locked": c.locked, "auto_archive_duration": c.archiving,
			"archive_timestamp": stamp(c.archivedAt), "create_timestamp": stamp(c.made),
		}
		delete(w, "permission_overwrites")
		delete(w, "topic")
	}
	return w
}
