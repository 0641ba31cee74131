package slack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Team is a workspace.
type Team struct {
	s      *Server
	id     string
	name   string
	domain string
}

// AddTeam makes a workspace.
func (s *Server) AddTeam(name string) *Team {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Team{s: s, id: s.idLocked("T"), name: cmp.Or(name, "Team")}
	t.domain = strings.ToLower(strings.ReplaceAll(t.name, " ", "-"))
	s.teams = append(s.teams, t)
	return t
}

// ID is the workspace's id.
func (t *Team) ID() string { return t.id }

// AppOptions describe an app. The zero value may do everything.
type AppOptions struct {
	Name string // of the bot user; default "hermes"
	// Scopes are what bot tokens may do; nil is AllScopes.
	Scopes []string
	// Events are the subscriptions, such as "message.channels"; nil is all
	// that the server knows. An event also needs its scope.
	Events []string
	// Commands are the slash commands of the app, such as "/hermes"; nil lets
	// people use any.
	Commands []string
	// Restricted gives the app the rates of apps that are sold but not in the
	// Marketplace: one call a minute of conversations.history and .replies,
	// with at most 15 messages.
	Restricted bool
	// MaxSockets is how many sockets may be open at a time; default 10.
	MaxSockets int
	// NoSocketScope leaves connections:write out of the app token.
	NoSocketScope bool
}

// An App has one app-level token and a bot token for each workspace that it is
// installed in.
type App struct {
	s     *Server
	opts  AppOptions
	id    string
	token string

	// s.mu guards what follows.
	off     bool // Socket Mode is turned off
	bots    []*Bot
	sockets []*socket
	tickets map[string]bool
	next    int // socket to be used next
	waiting map[string]*outstanding
	spoils  []*spoiled
	holes   int // sockets to come that are black holes
}

// AddApp makes an app that is installed nowhere yet.
func (s *Server) AddApp(o AppOptions) *App {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Name = cmp.Or(o.Name, "hermes")
	o.MaxSockets = cmp.Or(o.MaxSockets, 10)
	if o.Scopes == nil {
		o.Scopes = AllScopes()
	}
	a := &App{s: s, opts: o, id: s.idLocked("A"), tickets: map[string]bool{}, waiting: map[string]*outstanding{}}
	a.token = fmt.Sprintf("xapp-1-%s-%d-%064x", a.id, 7_000_000_000_000+int64(s.nextID), s.nextID*7919)
	s.apps = append(s.apps, a)
	return a
}

// ID is the app's id.
func (a *App) ID() string { return a.id }

// Token is the app-level token (xapp-…), for Socket Mode.
func (a *App) Token() string { return a.token }

// SetSocketMode turns Socket Mode off or on again. Off: open sockets are told
// link_disabled and closed, and no new ones can be opened.
func (a *App) SetSocketMode(on bool) {
	if !on {
		a.Disconnect(LinkDisabled)
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.off = !on
}

// A Bot is an app in one workspace: a token and a bot user.
type Bot struct {
	app   *App
	team  *Team
	user  *User
	botID string
	token string

	// s.mu guards what follows.
	scopes  []string
	refused string // what every call is refused with
}

// Install puts the app into a workspace, with the scopes of the app.
func (a *App) Install(t *Team) *Bot {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	b := &Bot{app: a, team: t, botID: a.s.idLocked("B"), scopes: slices.Clone(a.opts.Scopes)}
	b.token = fmt.Sprintf("xoxb-%d-%d-%024x", 2_000_000_000_000+int64(len(a.s.teams)), 3_000_000_000_000+int64(a.s.nextID), a.s.nextID*104729)
	b.user = t.addUserLocked(Person{Name: a.opts.Name, RealName: a.opts.Name})
	b.user.bot, b.user.botID = b, b.botID
	a.bots = append(a.bots, b)
	a.s.tokens[b.token] = b
	return b
}

// Token is the bot token (xoxb-…).
func (b *Bot) Token() string { return b.token }

// BotID is the id that stands at the bot's messages (B…).
func (b *Bot) BotID() string { return b.botID }

// User is the bot as a member of channels.
func (b *Bot) User() *User { return b.user }

// Team is the workspace that the bot is installed in.
func (b *Bot) Team() *Team { return b.team }

// App is the app that the bot belongs to.
func (b *Bot) App() *App { return b.app }

// Refuse refuses every further call of the bot token with an error, such as
// token_revoked, account_inactive or invalid_auth; "" ends that. Events stop as
// well.
func (b *Bot) Refuse(code string) {
	b.app.s.mu.Lock()
	defer b.app.s.mu.Unlock()
	b.refused = code
}

// SetScopes replaces the scopes of the bot token.
func (b *Bot) SetScopes(scopes ...string) {
	b.app.s.mu.Lock()
	defer b.app.s.mu.Unlock()
	b.scopes = scopes
}

func (b *Bot) hasLocked(scope string) bool { return slices.Contains(b.scopes, scope) }

// AllScopes are the scopes that the server knows.
func AllScopes() []string {
	return []string{
		"app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "chat:write.public",
		"commands", "files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read", "im:write",
		"mpim:history", "mpim:read", "mpim:write", "reactions:read", "reactions:write", "users:read", "users:read.email",
	}
}

// A Person is what is known of a user.
type Person struct {
	ID       string // empty: chosen
	Name     string // default "person<n>"
	RealName string // default: Name
	Email    string
	Bot      bool // another app's bot, which is played by the test
}

// A User is a person, or a bot as a member of channels.
type User struct {
	s      *Server
	team   *Team
	person Person
	bot    *Bot   // of an app of the server
	botID  string // of any bot

	// s.mu guards what follows.
	gone bool
	dms  map[string]*Channel // by id of the other user
}

// AddUser makes a person, or another app's bot.
func (t *Team) AddUser(p Person) *User {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.addUserLocked(p)
}

func (t *Team) addUserLocked(p Person) *User {
	if p.ID == "" {
		p.ID = t.s.idLocked("U")
	}
	if t.s.users[p.ID] != nil {
		panic("slack: the user exists already")
	}
	p.Name = cmp.Or(p.Name, "person"+strings.TrimLeft(p.ID, "U0SIM"))
	p.RealName = cmp.Or(p.RealName, p.Name)
	u := &User{s: t.s, team: t, person: p, dms: map[string]*Channel{}}
	if p.Bot {
		u.botID = t.s.idLocked("B")
	}
	t.s.users[p.ID] = u
	return u
}

// ID is the user's id.
func (u *User) ID() string { return u.person.ID }

// Person is what is known of the user.
func (u *User) Person() Person { return u.person }

// Mention is what a text says to mention the user.
func (u *User) Mention() string { return "<@" + u.person.ID + ">" }

// Deactivate ends the user's account.
func (u *User) Deactivate() {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.gone = true
}

// isBot tells whether the user is a bot of any kind.
func (u *User) isBot() bool { return u.botID != "" }
