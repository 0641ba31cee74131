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

// AddTeam creates a workspace.
func (s *Server) AddTeam(name string) *Team {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Team{s: s, id: s.idLocked("T"), name: cmp.Or(name, "Team")}
	t.domain = strings.ToLower(strings.ReplaceAll(t.name, " ", "-"))
	s.teams = append(s.teams, t)
	return t
}

// ID returns the ID of the workspace.
func (t *Team) ID() string { return t.id }

// AppOptions describe an app. With the zero value the app has all permissions.
type AppOptions struct {
	Name string // name of the bot user; default "hermes"
	// Scopes are the scopes of bot tokens; nil: AllScopes.
	Scopes []string
	// Events are the subscriptions, such as "message.channels"; nil: all that
	// the server knows. An event also needs its scope.
	Events []string
	// Commands are the slash commands of the app, such as "/hermes"; nil allows
	// any.
	Commands []string
	// Restricted applies the rate limits of distributed apps outside the
	// Marketplace: one call per minute of conversations.history and .replies,
	// with at most 15 messages.
	Restricted bool
	// MaxSockets is the maximum number of open sockets; default 10.
	MaxSockets int
	// NoSocketScope omits connections:write from the app-level token.
	NoSocketScope bool
}

// An App has one app-level token and one bot token per workspace in which it is
// installed.
type App struct {
	s     *Server
	opts  AppOptions
	id    string
	token string

	// s.mu guards the fields below.
	off     bool // Socket Mode is turned off
	bots    []*Bot
	sockets []*socket
	tickets map[string]bool
	next    int // index of the next socket to use
	waiting map[string]*outstanding
	spoils  []*spoiled
	holes   int // number of future sockets that become black holes
}

// AddApp creates an app that is not installed yet.
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

// ID returns the ID of the app.
func (a *App) ID() string { return a.id }

// Token returns the app-level token (xapp-…) for Socket Mode.
func (a *App) Token() string { return a.token }

// SetSocketMode turns Socket Mode off or on. When it is turned off, open
// sockets get a disconnect message with link_disabled and are closed, and no
// new ones can be opened.
func (a *App) SetSocketMode(on bool) {
	if !on {
		a.Disconnect(LinkDisabled)
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.off = !on
}

// A Bot is an app in one workspace, with a token and a bot user.
type Bot struct {
	app   *App
	team  *Team
	user  *User
	botID string
	token string

	// s.mu guards the fields below.
	scopes  []string
	refused string // error of every call; "": none
}

// Install installs the app in a workspace, with the scopes of the app.
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

// Token returns the bot token (xoxb-…).
func (b *Bot) Token() string { return b.token }

// BotID returns the bot_id in the messages of the bot (B…).
func (b *Bot) BotID() string { return b.botID }

// User returns the bot as a member of channels.
func (b *Bot) User() *User { return b.user }

// Team returns the workspace in which the bot is installed.
func (b *Bot) Team() *Team { return b.team }

// App returns the app of the bot.
func (b *Bot) App() *App { return b.app }

// Refuse makes every further call with the bot token fail with an error such as
// token_revoked, account_inactive or invalid_auth, and stops events; "" ends
// this.
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

// AllScopes returns the scopes that the server knows.
func AllScopes() []string {
	return []string{
		"app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "chat:write.public",
		"commands", "files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read", "im:write",
		"mpim:history", "mpim:read", "mpim:write", "reactions:read", "reactions:write", "users:read", "users:read.email",
	}
}

// A Person holds the profile of a user.
type Person struct {
	ID       string // "": generated
	Name     string // default "person<n>"
	RealName string // default: Name
	Email    string
	Bot      bool // the bot of another app, for which the test acts
}

// A User is a person, or a bot as a member of channels.
type User struct {
	s      *Server
	team   *Team
	person Person
	bot    *Bot   // set for bots of the server's apps
	botID  string // set for all bots

	// s.mu guards the fields below.
	gone bool
	dms  map[string]*Channel // by ID of the other user
}

// AddUser creates a person or the bot of another app.
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

// ID returns the ID of the user.
func (u *User) ID() string { return u.person.ID }

// Person returns the profile of the user.
func (u *User) Person() Person { return u.person }

// Mention returns the text that mentions the user.
func (u *User) Mention() string { return "<@" + u.person.ID + ">" }

// Deactivate deactivates the account of the user.
func (u *User) Deactivate() {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.gone = true
}

// isBot reports whether the user is a bot of any app.
func (u *User) isBot() bool { return u.botID != "" }
