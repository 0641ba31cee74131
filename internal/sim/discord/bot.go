package discord

import (
	"fmt"
	"time"
)

// BotOptions describe a bot.
type BotOptions struct {
	Name  string // default: "bot" and a number
	Token string // default: a generated token in Discord's format
	// Denied are the privileged intents that are disabled for the application
	// of the bot. Clients that ask for them are closed with 4014; without
	// IntentMessageContent the REST API hides contents too.
	Denied Intent
	// Owner may write to the bot without a common guild.
	Owner *User
}

// A Bot is an application with its bot user; both have the same ID.
type Bot struct {
	s      *Server
	user   *User
	owner  *User
	denied Intent

	// s.mu guards the fields below.
	token      string
	identified time.Time
	starts     int // sessions started in the day that ends at startsEnd
	startsEnd  time.Time
	dms        map[string]*Channel // by user ID
	commands   []*command
	nonces     []nonce // in the order of their expiry
	known      map[string]*message
}

// AddBot creates a bot, which is in no guild.
func (s *Server) AddBot(o BotOptions) *Bot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Name == "" {
		o.Name = fmt.Sprintf("bot%d", len(s.bots)+1)
	}
	b := &Bot{s: s, denied: o.Denied, owner: o.Owner, dms: map[string]*Channel{}, known: map[string]*message{}}
	b.user = s.addUserLocked(o.Name)
	b.user.bot = b
	if o.Token == "" {
		o.Token = "MTAw" + b.user.ID + ".GsimXY.unreal-token-of-a-simulated-bot_" + b.user.ID[len(b.user.ID)-4:]
	}
	b.token = o.Token
	s.bots[b.token] = b
	return b
}

// ID returns the ID of the application and of its user.
func (b *Bot) ID() string { return b.user.ID }

// User returns the bot as a member of guilds.
func (b *Bot) User() *User { return b.user }

// Token returns the token of the bot, without the "Bot " prefix.
func (b *Bot) Token() string {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.token
}

// ResetToken gives the bot a new token, closes its connections and returns the
// token, as its owner does after a leak.
func (b *Bot) ResetToken() string {
	b.s.mu.Lock()
	b.s.resetTokenLocked(b)
	token := b.token
	b.s.mu.Unlock()
	b.s.CloseAll(CloseBadToken, b)
	return token
}

func (s *Server) resetTokenLocked(b *Bot) {
	delete(s.bots, b.token)
	b.token = fmt.Sprintf("MTAw%s.Gnew%d.unreal-token-of-a-simulated-bot", b.user.ID, len(s.sessions)+b.starts)
	s.bots[b.token] = b
	for id, ss := range s.sessions {
		if ss.bot == b {
			delete(s.sessions, id)
		}
	}
}

// Sessions returns the number of sessions of the bot, with or without a
// connection.
func (b *Bot) Sessions() int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	n := 0
	for _, ss := range b.s.sessions {
		if ss.bot == b && ss.aliveLocked() {
			n++
		}
	}
	return n
}

// SetSessionStarts sets how many times the bot may still identify within the
// given time.
func (b *Bot) SetSessionStarts(left int, until time.Duration) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.starts, b.startsEnd = b.s.opts.SessionStarts-left, time.Now().Add(until)
}

// startLocked counts an identify. It reports false if the limit is exceeded.
func (b *Bot) startLocked() bool {
	if b.startsLeftLocked() <= 0 {
		return false
	}
	b.starts++
	return true
}

func (b *Bot) startsLeftLocked() int {
	if !time.Now().Before(b.startsEnd) {
		b.starts, b.startsEnd = 0, time.Now().Add(24*time.Hour)
	}
	return b.s.opts.SessionStarts - b.starts
}

func (b *Bot) flags() int {
	const contentLimited, membersLimited = 1 << 19, 1 << 15
	flags := 0
	if b.denied&IntentMessageContent == 0 {
		flags |= contentLimited
	}
	if b.denied&IntentGuildMembers == 0 {
		flags |= membersLimited
	}
	return flags
}

// A User is a person, or the user account of a bot.
type User struct {
	s    *Server
	ID   string
	Name string
	bot  *Bot

	noDM bool // s.mu guards it
}

// AddUser creates a person, who is in no guild.
func (s *Server) AddUser(name string) *User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addUserLocked(name)
}

func (s *Server) addUserLocked(name string) *User {
	u := &User{s: s, ID: s.newIDLocked(), Name: name}
	s.users[u.ID] = u
	return u
}

// IsBot reports whether the user is a bot.
func (u *User) IsBot() bool { return u.bot != nil }

// Mention returns the text that mentions the user.
func (u *User) Mention() string { return "<@" + u.ID + ">" }

// RefuseDM sets whether the person refuses direct messages: sends of bots then
// fail with 50007.
func (u *User) RefuseDM(on bool) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.noDM = on
}

func (u *User) wire() obj {
	return obj{
		"id": u.ID, "username": u.Name, "global_name": u.Name, "discriminator": "0", "avatar": nil,
		"bot": u.bot != nil, "public_flags": 0,
	}
}

// DM returns the direct message channel with a bot. The first call creates it.
func (u *User) DM(b *Bot) *Channel {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	return b.dmLocked(u)
}

func (b *Bot) dmLocked(u *User) *Channel {
	if c := b.dms[u.ID]; c != nil {
		return c
	}
	c := b.s.newChannelLocked(nil, ChannelOptions{Kind: DirectMessage})
	c.bot, c.peer = b, u
	b.dms[u.ID] = c
	return c
}

// reachableLocked reports whether the bot may write to the person.
func (b *Bot) reachableLocked(u *User) bool {
	if u.noDM || u.bot != nil {
		return false
	}
	if b.owner == u {
		return true
	}
	for _, g := range b.s.guilds {
		if g.members[u.ID] != nil && g.members[b.user.ID] != nil {
			return true
		}
	}
	return false
}
