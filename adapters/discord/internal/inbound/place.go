package inbound

import (
	"encoding/json"
	"strings"
	"sync"
)

// The channel types with special handling.
const (
	typeText = 0
	// Direct is a direct chat.
	Direct           = 1
	typeAnnouncement = 5
	typeNewsThread   = 10
	typePrivate      = 12

	// PublicThread is a thread that was started from a message.
	PublicThread = 11
	// Unknown is the type of a channel that cannot be looked up.
	Unknown = -1
)

// A ChannelInfo is the known data of a channel.
type ChannelInfo struct {
	ID, Guild  string
	Parent     string // of a thread: its channel
	Name       string
	ParentName string
	GuildName  string
	Type       int
	Last       string // ID of the newest message when Discord reported the channel
	// Ours is true for a thread that the account itself has opened.
	Ours bool
	// Role is the ID of the account's managed role in this guild.
	Role string
}

// Thread reports whether the channel is a thread or a forum post.
func (p ChannelInfo) Thread() bool { return p.Type >= typeNewsThread && p.Type <= typePrivate }

// Direct reports whether the channel belongs to no guild.
func (p ChannelInfo) Direct() bool { return p.Guild == "" }

// channel holds the fields in use of Discord's channel object.
type channel struct {
	ID      string `json:"id"`
	Guild   string `json:"guild_id"`
	Type    int    `json:"type"`
	Name    string `json:"name"`
	Parent  string `json:"parent_id"`
	Owner   string `json:"owner_id"`
	LastMsg string `json:"last_message_id"`
}

type guild struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Unavailable bool       `json:"unavailable"`
	Channels    []*channel `json:"channels"`
	Threads     []*channel `json:"threads"`
	Roles       []*role    `json:"roles"`
}

type role struct {
	ID   string `json:"id"`
	Tags struct {
		Bot string `json:"bot_id"`
	} `json:"tags"`
}

// A Directory holds what Discord has reported about guilds and their channels.
// Its methods are safe for concurrent use.
type Directory struct {
	mu       sync.Mutex // guards the fields below
	me       string
	channels map[string]channel
	guilds   map[string]guild
}

// NewDirectory returns an empty directory.
func NewDirectory() *Directory {
	return &Directory{channels: map[string]channel{}, guilds: map[string]guild{}}
}

// Me sets the account's own user ID.
func (d *Directory) Me(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.me = id
}

// Channel returns the known data of a channel.
func (d *Directory) Channel(id string) (ChannelInfo, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.channels[id]
	if !ok {
		return ChannelInfo{}, false
	}
	g := d.guilds[c.Guild]
	p := ChannelInfo{
		ID: c.ID, Guild: c.Guild, Name: c.Name, GuildName: g.Name, Type: c.Type, Last: c.LastMsg,
		Ours: d.me != "" && c.Owner == d.me,
	}
	if p.Thread() {
		p.Parent, p.ParentName = c.Parent, d.channels[c.Parent].Name
	}
	for _, r := range g.Roles {
		if d.me != "" && r.Tags.Bot == d.me {
			p.Role = r.ID
		}
	}
	return p, true
}

// Learn adds one channel object as returned by the REST API.
func (d *Directory) Learn(raw json.RawMessage) (ChannelInfo, bool) {
	var c channel
	if read(raw, &c) != nil || c.ID == "" {
		return ChannelInfo{}, false
	}
	d.put(c)
	return d.Channel(c.ID)
}

// Apply updates the directory from an event about guilds or channels. listed is
// the ID of the guild that the event describes completely; "" for other events.
func (d *Directory) Apply(kind string, raw json.RawMessage) (listed string) {
	switch {
	case kind == "GUILD_CREATE":
		return d.list(raw)
	case kind == "GUILD_DELETE":
		d.forget(raw)
	case kind == "THREAD_LIST_SYNC":
		var s struct {
			Guild   string     `json:"guild_id"`
			Threads []*channel `json:"threads"`
		}
		if read(raw, &s) == nil {
			d.putAll(s.Guild, s.Threads)
		}
	case kind == "GUILD_ROLE_CREATE" || kind == "GUILD_ROLE_UPDATE":
		var r struct {
			Guild string `json:"guild_id"`
			Role  *role  `json:"role"`
		}
		if read(raw, &r) == nil && r.Role != nil {
			d.addRole(r.Guild, r.Role)
		}
	case kind == "CHANNEL_DELETE" || kind == "THREAD_DELETE":
		var c channel
		if read(raw, &c) == nil {
			d.mu.Lock()
			delete(d.channels, c.ID)
			d.mu.Unlock()
		}
	case strings.HasPrefix(kind, "CHANNEL_") || strings.HasPrefix(kind, "THREAD_"):
		d.Learn(raw) // created or updated
	}
	return ""
}

func (d *Directory) list(raw json.RawMessage) string {
	var g guild
	if read(raw, &g) != nil || g.ID == "" || g.Unavailable {
		return ""
	}
	d.mu.Lock()
	for id, c := range d.channels {
		if c.Guild == g.ID {
			delete(d.channels, id)
		}
	}
	d.guilds[g.ID] = guild{ID: g.ID, Name: g.Name, Roles: whole(g.Roles)}
	d.mu.Unlock()
	d.putAll(g.ID, g.Channels)
	d.putAll(g.ID, g.Threads)
	return g.ID
}

func (d *Directory) forget(raw json.RawMessage) {
	var g guild
	if read(raw, &g) != nil || g.Unavailable {
		return // an outage; the guild will be reported again
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.guilds, g.ID)
	for id, c := range d.channels {
		if c.Guild == g.ID {
			delete(d.channels, id)
		}
	}
}

func (d *Directory) addRole(id string, r *role) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, ok := d.guilds[id]
	if !ok || d.me == "" || r.Tags.Bot != d.me {
		return
	}
	g.Roles = append(g.Roles[:len(g.Roles):len(g.Roles)], r)
	d.guilds[id] = g
}

func (d *Directory) putAll(guild string, all []*channel) {
	for _, c := range whole(all) {
		c.Guild = guild
		d.put(*c)
	}
}

func (d *Directory) put(c channel) {
	if c.ID == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.channels[c.ID] = c
}

// whole returns a list without the nulls that a server might include.
func whole[T any](in []*T) []*T {
	out := make([]*T, 0, len(in))
	for _, v := range in {
		if v != nil {
			out = append(out, v)
		}
	}
	return out
}
