package discord

import (
	"slices"
	"time"
)

// A Guild is a guild, which the Discord client calls a server.
type Guild struct {
	s    *Server
	id   string
	name string

	// s.mu guards the fields below.
	owner   *User
	roles   []*Role // the first one is @everyone
	members map[string]*member
	gone    bool // unavailable
}

// A member is the membership of a user in a guild.
type member struct {
	user   *User
	nick   string
	roles  []string
	joined time.Time
}

func (m *member) has(role string) bool { return slices.Contains(m.roles, role) }

func (m *member) wire() obj {
	return obj{
		"nick": m.nick, "roles": append([]string{}, m.roles...), "joined_at": stamp(m.joined),
		"deaf": false, "mute": false, "flags": 0,
	}
}

func (m *member) wireWithUser() obj {
	w := m.wire()
	w["user"] = m.user.wire()
	return w
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000-07:00")
}

// AddGuild creates a guild without channels whose only member is its owner.
func (s *Server) AddGuild(name string, owner *User) *Guild {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &Guild{s: s, id: s.newIDLocked(), name: name, owner: owner, members: map[string]*member{}}
	g.roles = []*Role{{ID: g.id, Name: "@everyone", Permissions: EveryonePermissions}}
	g.members[owner.ID] = &member{user: owner, joined: time.Now()}
	s.guilds = append(s.guilds, g)
	return g
}

// ID returns the ID of the guild, which is also the ID of its role @everyone.
func (g *Guild) ID() string { return g.id }

// AddRole creates a role. Members get it by Give.
func (g *Guild) AddRole(name string, p Permission) *Role {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	r := &Role{ID: g.s.newIDLocked(), Name: name, Permissions: p, Mentionable: true}
	g.roles = append(g.roles, r)
	for _, b := range g.botsLocked() {
		b.dispatchLocked("GUILD_ROLE_CREATE", IntentGuilds, Offer{}, func(view) obj {
			return obj{"guild_id": g.id, "role": r.wire()}
		})
	}
	return r
}

// Join adds users to the guild. A bot that joins receives GUILD_CREATE; bots
// with the members intent receive an event about the new member.
func (g *Guild) Join(users ...*User) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	for _, u := range users {
		if g.members[u.ID] != nil {
			continue
		}
		g.members[u.ID] = &member{user: u, joined: time.Now()}
		if u.bot != nil {
			u.bot.dispatchLocked("GUILD_CREATE", IntentGuilds, Offer{}, g.wireCreateLocked)
		}
		g.tellMemberLocked("GUILD_MEMBER_ADD", u)
	}
}

// Leave removes a member. A bot that leaves receives GUILD_DELETE.
func (g *Guild) Leave(u *User) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.members[u.ID] == nil {
		return
	}
	g.tellMemberLocked("GUILD_MEMBER_REMOVE", u)
	delete(g.members, u.ID)
	if u.bot != nil {
		u.bot.dispatchLocked("GUILD_DELETE", IntentGuilds, Offer{}, func(view) obj { return obj{"id": g.id} })
	}
}

// Give gives a role to a member.
func (g *Guild) Give(u *User, r *Role) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if m := g.members[u.ID]; m != nil && !m.has(r.ID) {
		m.roles = append(m.roles, r.ID)
		g.tellMemberLocked("GUILD_MEMBER_UPDATE", u)
	}
}

// Take takes a role from a member.
func (g *Guild) Take(u *User, r *Role) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if m := g.members[u.ID]; m != nil && m.has(r.ID) {
		m.roles = slices.DeleteFunc(m.roles, func(id string) bool { return id == r.ID })
		g.tellMemberLocked("GUILD_MEMBER_UPDATE", u)
	}
}

func (g *Guild) tellMemberLocked(kind string, u *User) {
	m := g.members[u.ID]
	for _, b := range g.botsLocked() {
		if b.user == u && kind != "GUILD_MEMBER_UPDATE" {
			continue
		}
		b.dispatchLocked(kind, IntentGuildMembers, Offer{From: u.ID}, func(view) obj {
			w := m.wireWithUser()
			w["guild_id"] = g.id
			return w
		})
	}
}

// Outage makes the guild unavailable, or available again. Its bots receive an
// event. Unlike on the real server, their calls continue to work.
func (g *Guild) Outage(on bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.gone == on {
		return
	}
	g.gone = on
	for _, b := range g.botsLocked() {
		if on {
			b.dispatchLocked("GUILD_DELETE", IntentGuilds, Offer{}, func(view) obj {
				return obj{"id": g.id, "unavailable": true}
			})
		} else {
			b.dispatchLocked("GUILD_CREATE", IntentGuilds, Offer{}, g.wireCreateLocked)
		}
	}
}

// botsLocked returns the bots among the members, in the order of their
// creation.
func (g *Guild) botsLocked() []*Bot {
	var out []*Bot
	for _, m := range g.members {
		if m.user.bot != nil {
			out = append(out, m.user.bot)
		}
	}
	slices.SortFunc(out, func(a, b *Bot) int { return int(number(a.user.ID)) - int(number(b.user.ID)) })
	return out
}

func (r *Role) wire() obj {
	return obj{
		"id": r.ID, "name": r.Name, "permissions": decimal(r.Permissions), "mentionable": r.Mentionable,
		"color": 0, "hoist": false, "position": 1, "managed": false,
	}
}

func (g *Guild) wire() obj {
	roles := []obj{}
	for _, r := range g.roles {
		roles = append(roles, r.wire())
	}
	return obj{
		"id": g.id, "name": g.name, "owner_id": g.owner.ID, "roles": roles, "emojis": []obj{}, "features": []string{},
		"preferred_locale": "en-US", "verification_level": 0, "icon": nil,
	}
}

// wireCreateLocked returns the content of GUILD_CREATE: channels and threads
// that the bot may see, and of the members only the bot.
func (g *Guild) wireCreateLocked(v view) obj {
	w := g.wire()
	channels, threads := []obj{}, []obj{}
	for _, c := range g.s.order {
		switch {
		case c.guild != g || c.archived || c.permsLocked(v.bot.user)&ViewChannel == 0:
		case c.isThread():
			threads = append(threads, c.wireLocked(v))
		default:
			channels = append(channels, c.wireLocked(v))
		}
	}
	w["channels"], w["threads"], w["member_count"], w["large"] = channels, threads, len(g.members), false
	w["members"] = []obj{}
	if m := g.members[v.bot.user.ID]; m != nil {
		w["members"], w["joined_at"] = []obj{m.wireWithUser()}, stamp(m.joined)
	}
	return w
}
