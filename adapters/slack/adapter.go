// Package slack implements the adapter that connects one Slack app in one
// workspace to the daemon, by Socket Mode. Its main type is Adapter.
//
// An envelope is acknowledged only after the sink has stored its event on disk. A
// redelivered event arrives in a new envelope, so an event is identified by its
// channel and ts; the two events of a mention count as one.
//
//	Slack ── envelope ──► connection ──► intake.put     never waits
//	                                        │ queue, in order
//	                                     intake.work
//	                                        ├── convert (names are looked up)
//	                                        ├── sink.Accept, until it takes the batch
//	                                        │      │ nil: on disk
//	Slack ◄── envelope_id ──────────────────┘◄─────┘
//
// When Slack asks to disconnect a socket, the next one is opened first and the old
// one is read until it is empty. After a time without a socket Slack may have stopped
// redelivering, so the histories of the channels with conversations are fetched;
// Health reports what could not be fetched.
//
// A send is attempted once. The outcome of a failed send is in its
// chat.SendError; see apierror.SendError for the table. Messages carry the
// outbound ID as metadata, by which Find finds them.
package slack

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"go.uber.org/zap"

	"hermesd/adapters/internal/health"
	"hermesd/adapters/internal/transport"
	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/checkpoint"
	"hermesd/adapters/slack/internal/connection"
	"hermesd/adapters/slack/internal/directory"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/internal/backoff"
	"hermesd/internal/secret"
)

// Options are the dependencies of an Adapter. Only Memory and Log are required.
type Options struct {
	// Account is the account's name in addresses; "" if there is only one
	// account.
	Account string
	// Transport carries the API calls of this account; nil means a transport of
	// its own.
	Transport http.RoundTripper
	// Socket opens the connection of a socket, TLS included; nil means the
	// network.
	Socket func(ctx context.Context, network, address string) (net.Conn, error)
	// Memory stores the joined threads and the checkpoints across restarts.
	Memory chat.Memory
	// Commands are the names of the daemon's commands, without a slash. They are
	// recognized after /hermes and after an exclamation mark.
	Commands []string
	Words    i18n.Printer // prints the adapter's own texts for users
	Log      *zap.Logger
}

// An Adapter connects one app in one workspace. Slack's command menu is part of
// the app's manifest, so Adapter is not a chat.CommandPublisher; see Manifest.
type Adapter struct {
	cfg    Config
	o      Options
	log    *zap.Logger
	rules  inbound.Rules
	wire   *apiclient.Client
	api    *slack.Client
	people *directory.Directory
	places *checkpoint.Set
	urls   *replyURLs
	// dismissed has the keys of events that a rule ended, until Accept has returned.
	dismissed sync.Map
	typing    *statusLimiter
	// conv converts one envelope: inbound.Converter.Convert.
	conv func(inbound.Converter, inbound.Envelope, time.Time) (chat.Inbound, bool, error)

	health *health.Record

	mu      sync.Mutex // guards the fields below
	me      inbound.Identity
	storing string    // why nothing can be stored; "" if the store works
	lacking string    // missing scopes of the app
	shared  string    // set if another process receives some of the events
	unseen  string    // what could not be backfilled
	missed  time.Time // when unseen was set
}

var _ interface {
	chat.Adapter
	chat.Editor
	chat.Deleter
	chat.Typer
	chat.FileFetcher
	chat.Finder
	chat.CallbackAnswerer
	chat.Dismisser
	chat.ThreadReader
	chat.Reactor
} = (*Adapter)(nil)

// New returns an adapter that has not connected yet. Its errors are
// *chat.ConfigError.
func New(cfg Config, o Options) (*Adapter, error) {
	wrong := func(err error) (*Adapter, error) {
		return nil, &chat.ConfigError{Platform: chat.Slack, Reason: err.Error()}
	}
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return wrong(err)
	}
	rules, err := inbound.NewRules(cfg.settings(o.Commands))
	if err != nil {
		return wrong(err)
	}
	a := &Adapter{cfg: cfg, o: o, log: o.Log, rules: rules, urls: new(replyURLs), typing: &statusLimiter{at: map[chat.Address]time.Time{}}, conv: inbound.Converter.Convert, health: health.New(o.Log)}
	a.wire = &apiclient.Client{RT: o.Transport, Base: cfg.APIURL, Hidden: []secret.Value{cfg.Token, cfg.AppToken}}
	if o.Transport == nil {
		if a.wire.RT, err = transport.New(cfg.Proxy); err != nil {
			return wrong(err)
		}
	}
	a.wire.RT = a.health.Clock(a.wire.RT)
	a.api = slack.New(cfg.Token.Reveal(),
		slack.OptionAppLevelToken(cfg.AppToken.Reveal()),
		slack.OptionAPIURL(cfg.APIURL),
		slack.OptionHTTPClient(a.wire),
		slack.OptionLog(log.New(io.Discard, "", 0)),
	)
	a.people = directory.New(a.api, o.Log)
	a.places = checkpoint.New(a.memoryKey(), o.Memory, o.Log)
	return a, nil
}

// memoryKey contains the app's ID and not the account's name, because an account
// may change its tokens. The app token contains the app's ID: xapp-1-A0123-….
func (a *Adapter) memoryKey() string {
	parts := strings.Split(a.cfg.AppToken.Reveal(), "-")
	app := "app"
	if len(parts) >= 3 && len(parts[2]) <= 16 {
		app = parts[2]
	}
	return string(chat.Slack) + "." + app + "." + a.o.Account
}

// Run implements chat.Adapter. It returns nil when ctx ends.
func (a *Adapter) Run(ctx context.Context, sink chat.Sink) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a.places.Recall(ctx)
	if err := a.identify(ctx); err != nil {
		stop(err)
	}
	var wg sync.WaitGroup
	if ctx.Err() == nil {
		in := newIntake(a, sink, stop)
		wg.Go(func() { in.work(ctx) })
		wg.Go(func() { a.places.Keep(ctx) })
		stop(connection.Run(ctx, connection.Options{
			Handler: &socketHandler{a: a, in: in}, API: a.api, Wire: a.wire, Socket: a.o.Socket,
			Proxy: a.cfg.Proxy, Last: a.places.Alive(), Log: a.log,
		}))
	}
	stop(nil)
	wg.Wait()
	if ce, ok := errors.AsType[*chat.ConfigError](context.Cause(ctx)); ok {
		a.health.Set(chat.Failed, ce.Reason)
		return ce
	}
	return nil
}

func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: textLimit, TextSize: Size, EditInterval: editInterval, CanFind: true}
}

func (a *Adapter) Health() chat.Health {
	h := a.health.State()
	a.mu.Lock()
	defer a.mu.Unlock()
	h.Name = a.me.Name
	if a.storing != "" && h.State == chat.Connected {
		h.State = chat.Retrying
	}
	var why []string
	unseen := a.unseen
	if time.Since(a.missed) > toldFor {
		unseen = ""
	}
	for _, s := range []string{h.Error, a.storing, a.lacking, a.shared, unseen} {
		if s != "" {
			why = append(why, s)
		}
	}
	h.Error = strings.Join(why, "; ")
	return h
}

// note sets one of the lines of Health to text.
func (a *Adapter) note(line *string, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*line = text
}

// miss sets what could not be backfilled; Health reports it for a limited time.
func (a *Adapter) miss(what string) {
	a.note(&a.unseen, what)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missed = time.Now()
}

func (a *Adapter) identity() inbound.Identity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.me
}

// Limits of the platform, text in UTF-16 units.
const (
	textLimit    = 40_000
	sectionLimit = 3000
	blocksLimit  = 12_000 // of all blocks of a message; Slack does not document the limit
	updateLimit  = 4000   // of the text of an edited message
	captionLimit = 4000
	buttonData   = 64
	buttonLabel  = 75
	rowLimit     = 25 // buttons in one row
	upLimit      = 1 << 30
	downLimit    = 1 << 30
)

// Timeouts and intervals.
const (
	editInterval = 3 * time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second
	lookTimeout  = 1500 * time.Millisecond // for name lookups, before an event is stored
	statusPace   = 25 * time.Second        // between two updates of the typing status
	urlLife      = 29 * time.Minute        // of the response URL of a slash command
	urlUses      = 5
)

// Limits of the backfill: some apps may fetch history only once a minute, with
// 15 messages per call.
const (
	healFirst       = 2500 * time.Millisecond // new events wait for this part, so that the order is kept
	backfillTimeout = 10 * time.Minute        // for the rest
	toldFor         = 24 * time.Hour          // how long Health reports what could not be backfilled
	healPause       = 10 * time.Second        // before a retry after a failure
	healDMs         = 200                     // direct chats that are listed
	// healStrangers is the number of direct chats without a conversation so far
	// that are backfilled, the newest first.
	healStrangers = 5
	healMargin    = 10 * time.Second
	healPages     = 3
	healPage      = 100
	healRecent    = 7 * 24 * time.Hour
)

// scopes returns the scopes that the app needs; Manifest requests the same.
func scopes() []string {
	return []string{
		"app_mentions:read", "channels:history", "channels:read", "chat:write", "commands",
		"files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read",
		"mpim:history", "mpim:read", "reactions:write", "users:read",
	}
}

// decoration reports whether a scope is optional, so that nothing is lost
// without it.
func decoration(scope string) bool {
	return scope == "reactions:write" || scope == "commands"
}

// identify fetches the bot's own identity, retrying until it succeeds. It fails
// only with an error that the operator has to repair, or when ctx ends.
func (a *Adapter) identify(ctx context.Context) error {
	b := backoff.Backoff{First: connection.First}
	for {
		err := a.ask(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if ce := apierror.Config(err); ce != nil {
			return ce
		}
		se := apierror.SendError(err)
		a.log.Warn("cannot fetch bot identity", zap.Error(err))
		a.health.Set(chat.Retrying, se.Reason)
		if err := backoff.Sleep(ctx, max(se.RetryAfter, b.Next())); err != nil {
			return err
		}
	}
}

func (a *Adapter) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := a.api.AuthTestContext(ctx)
	if err != nil {
		return err //nolint:wrapcheck // sendError converts it
	}
	a.mu.Lock()
	a.me = inbound.Identity{Team: r.TeamID, UserID: r.UserID, BotID: r.BotID, Name: r.User}
	a.mu.Unlock()
	a.compare(r.Header)
	return nil
}

// compare logs and records the scopes that the app lacks.
func (a *Adapter) compare(h http.Header) {
	said := h.Get("X-Oauth-Scopes")
	if said == "" {
		return // the server does not report scopes
	}
	var have, lack, bad []string
	for s := range strings.SplitSeq(said, ",") {
		have = append(have, strings.TrimSpace(s))
	}
	for _, s := range scopes() {
		if slices.Contains(have, s) {
			continue
		}
		lack = append(lack, s)
		if !decoration(s) {
			bad = append(bad, s)
		}
	}
	if len(lack) == 0 {
		a.note(&a.lacking, "")
		return
	}
	a.log.Warn("app lacks scopes; add them under OAuth & Permissions and reinstall it", zap.Strings("scopes", lack))
	if len(bad) > 0 {
		a.note(&a.lacking, "the app lacks the scopes "+strings.Join(bad, ", ")+"; add them under OAuth & Permissions and install it again")
	}
}
