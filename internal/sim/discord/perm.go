package discord

// A Permission is a set of permission bits of a role.
type Permission int64

// Permissions that the server knows.
const (
	Administrator      Permission = 1 << 3
	ManageChannels     Permission = 1 << 4
	AddReactions       Permission = 1 << 6
	ViewChannel        Permission = 1 << 10
	SendMessages       Permission = 1 << 11
	ManageMessages     Permission = 1 << 13
	EmbedLinks         Permission = 1 << 14
	AttachFiles        Permission = 1 << 15
	ReadMessageHistory Permission = 1 << 16
	MentionEveryone    Permission = 1 << 17
	UseCommands        Permission = 1 << 31
	ManageThreads      Permission = 1 << 34
	CreateThreads      Permission = 1 << 35
	CreatePrivate      Permission = 1 << 36
	SendInThreads      Permission = 1 << 38

	allPermissions Permission = 1<<50 - 1
)

// EveryonePermissions are the permissions of the role @everyone in a new guild.
const EveryonePermissions = AddReactions | ViewChannel | SendMessages | EmbedLinks | AttachFiles |
	ReadMessageHistory | UseCommands | CreateThreads | CreatePrivate | SendInThreads

// A Role is a role of a guild.
type Role struct {
	ID          string
	Name        string
	Permissions Permission
	Mentionable bool
}

// An overwrite changes permissions in one channel.
type overwrite struct {
	id          string
	user        bool
	allow, deny Permission
}

// permsLocked returns the permissions of a user in a channel.
func (c *Channel) permsLocked(u *User) Permission {
	if c.guild == nil {
		if c.peer == u || c.bot.user == u {
			return EveryonePermissions
		}
		return 0
	}
	m := c.guild.members[u.ID]
	if m == nil {
		return 0
	}
	all := c.guild.permsLocked(u)
	if all&Administrator != 0 {
		return allPermissions
	}
	at := c
	if c.parent != nil && c.isThread() {
		at = c.parent
	}
	for step := range 3 { // everyone, then all roles together, then the member
		var allow, deny Permission
		for _, o := range at.overwrites {
			everyone := o.id == c.guild.id
			hit := step == 0 && everyone || step == 2 && o.user && o.id == u.ID ||
				step == 1 && !o.user && !everyone && m.has(o.id)
			if hit {
				allow |= o.allow
				deny |= o.deny
			}
		}
		all = all&^deny | allow
	}
	if all&ViewChannel == 0 {
		return 0
	}
	if c.kind == PrivateThread && all&ManageThreads == 0 && !c.inThread[u.ID] {
		return 0
	}
	return all
}

// permsLocked returns the permissions of a user in the guild, without channel
// overwrites.
func (g *Guild) permsLocked(u *User) Permission {
	m := g.members[u.ID]
	if m == nil {
		return 0
	}
	if g.owner == u {
		return allPermissions
	}
	all := g.roles[0].Permissions
	for _, r := range g.roles[1:] {
		if m.has(r.ID) {
			all |= r.Permissions
		}
	}
	if all&Administrator != 0 {
		return allPermissions
	}
	return all
}

// placeLocked returns the channel of a call and the permissions of the bot in
// it.
func (c *call) placeLocked() (*Channel, Permission, *apiError) {
	ch := c.s.channels[c.path("channel")]
	if ch == nil {
		return nil, 0, unknown(10003, "Channel")
	}
	p := ch.permsLocked(c.bot.user)
	if p&ViewChannel == 0 {
		return nil, 0, missingAccess()
	}
	return ch, p, nil
}

// Allow grants p to a role or member in the channel, whatever its roles say.
// Bots receive an event.
func (c *Channel) Allow(id string, p Permission) { c.overwrite(id, p, 0) }

// Deny denies p to a role or member in the channel; the ID of a guild is the ID
// of its role @everyone. Bots receive an event.
func (c *Channel) Deny(id string, p Permission) { c.overwrite(id, 0, p) }

func (c *Channel) overwrite(id string, allow, deny Permission) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	o := &overwrite{id: id, user: c.s.users[id] != nil}
	for _, old := range c.overwrites {
		if old.id == id {
			o = old
		}
	}
	if o.allow|o.deny == 0 {
		c.overwrites = append(c.overwrites, o)
	}
	o.allow = o.allow&^deny | allow
	o.deny = o.deny&^allow | deny
	c.announceLocked("CHANNEL_UPDATE", IntentGuilds, c.wireLocked)
}
