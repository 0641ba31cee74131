// Package discord implements the adapter that connects one Discord bot to the
// daemon. Its main type is Adapter.
//
// Discord's gateway does not deliver an event again once it has been read.
// Therefore events wait in memory until the sink has stored them on disk, and
// events that were lost from memory, because the process ended or the queue was
// full, are backfilled from the history of the channels:
//
//	gateway ─► frame filter ─► library ─► queue ─► convert ─► sink.Accept
//	                                        │                   │ nil: on disk
//	                                        │                   ▼
//	                                        │       checkpoint of the channel ─► Memory
//	                                        ▼                   │
//	 new session, or full: history after the checkpoint ◄───────┘
//
// A checkpoint is the ID of the newest message of a channel up to which
// everything is on disk. The channels, threads and direct chats that have
// conversations have a checkpoint. Edits, button presses and commands are not
// part of the history: those that arrive while the daemon is down are lost, and
// users see that a press or a command failed.
//
// Within the process a lost connection is resumed, and Discord repeats the missed
// events. The library performs the handshake, the resume and the heartbeats; the
// frame filter withholds from it what it cannot handle.
//
// A send is attempted once, with a nonce by which Discord recognizes a repeat for
// some minutes; after that Find searches the history. The outcome of a failed
// send is in its chat.SendError; see apierror.SendError for the table.
//
// A slash command is answered in place by the first message to its address, for
// a quarter of an hour. The token for it is only in memory: after a restart the
// answer is an ordinary message.
//
// Accounts share no state: each has its own library sessions, transport and
// limits. The library's global variables are not changed.
package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/connection"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/discord/internal/ingest"
	"hermesd/adapters/internal/health"
	"hermesd/adapters/internal/mention"
	"hermesd/adapters/internal/transport"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// Options are the dependencies of an Adapter. Only Memory and Log are required.
type Options struct {
	// Account is the account's name in addresses; "" if there is only one
	// account.
	Account string
	// Transport carries the API calls of this account; nil means a transport of
	// its own.
	Transport http.RoundTripper
	// Dial connects to the gateway and does not add TLS; nil means the network,
	// with TLS if the address requires it, through the proxy.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Files downloads attachments. It must refuse private addresses where that
	// matters; nil means the account's transport.
	Files *http.Client
	// Memory stores the checkpoints across restarts.
	Memory chat.Memory
	Words  i18n.Printer // prints the adapter's own texts for users
	Log    *zap.Logger
}

// An Identity is the bot's own account.
type Identity = inbound.Identity

// An Adapter connects one bot. It implements chat.Adapter and the optional
// interfaces of chat except chat.ThreadReader.
type Adapter struct {
	cfg   Config
	o     Options
	log   *zap.Logger
	rules inbound.Rules
	wire  *apiclient.Client
	files *http.Client
	dir   *inbound.Directory
	max   int // maximum number of events in memory that wait for the sink

	threads  threads
	answers  openInteractions
	nonces   nonces
	unmarked unmarked
	// dismissed has the keys of events that a rule ended, until Accept has returned.
	dismissed sync.Map

	health *health.Record

	mu    sync.Mutex // guards the fields below
	store string     // why nothing can be stored; "" if the store works
	me    Identity
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
	chat.CommandPublisher
	chat.Reactor
} = (*Adapter)(nil)

// New returns an adapter that has not connected yet. Its errors are
// *chat.ConfigError.
func New(cfg Config, o Options) (*Adapter, error) {
	cfg = cfg.withDefaults()
	a, err := build(cfg, o)
	if err != nil {
		return nil, &chat.ConfigError{Platform: chat.Discord, Reason: err.Error()}
	}
	return a, nil
}

func build(cfg Config, o Options) (*Adapter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	rules, err := mention.NewRules(cfg.settings())
	if err != nil {
		return nil, err
	}
	if o.Transport == nil {
		if o.Transport, err = transport.New(cfg.Proxy); err != nil {
			return nil, err
		}
	}
	o.Files = cmp.Or(o.Files, &http.Client{Transport: o.Transport})
	a := &Adapter{cfg: cfg, o: o, log: o.Log, rules: inbound.Rules{Rules: rules}, files: o.Files, dir: inbound.NewDirectory(), max: feedItems, health: health.New(o.Log)}
	if a.wire, err = apiclient.New(cfg.Token, cfg.BaseURL, a.health.Clock(o.Transport)); err != nil {
		return nil, err
	}
	return a, nil
}

// Run implements chat.Adapter. It returns nil about a second after ctx ends: the
// library takes that long to close a connection.
func (a *Adapter) Run(ctx context.Context, sink chat.Sink) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	feed := ingest.NewEventQueue(a.max, feedBytes)
	var wg sync.WaitGroup
	wg.Go(func() {
		ingest.Run(ctx, feed, ingest.Options{
			Sink: sink, Wire: a.wire, Dir: a.dir, Memory: a.o.Memory, Log: a.log, Converter: a.converter,
			Expect: a.expect, Taken: a.taken, Dismissed: a.wasDismissed, Own: a.nonces.put, Storing: a.storing,
		})
	})
	err := connection.Run(ctx, connection.Options{
		Wire: a.wire, Log: a.log, Dial: a.connect, Push: feed.Push, OnReady: a.onReady, OnAlive: a.health.MarkAlive, State: a.changed,
	})
	stop()
	wg.Wait()
	if err != nil {
		a.health.Set(chat.Failed, err.Reason)
		return err
	}
	return nil
}

func (a *Adapter) connect(ctx context.Context, network, address string, secure bool) (net.Conn, error) {
	if a.o.Dial != nil {
		return a.o.Dial(ctx, network, address)
	}
	dial, err := apiclient.Through(a.cfg.Proxy)
	if err != nil {
		return nil, err
	}
	if secure {
		dial = apiclient.Secure(dial)
	}
	return dial(ctx, network, address)
}

// onReady reads the bot's identity from READY.
func (a *Adapter) onReady(raw json.RawMessage) {
	var r struct {
		User struct {
			ID       string `json:"id"`
			Username string `json:"username"`
		} `json:"user"`
		Application struct {
			ID string `json:"id"`
		} `json:"application"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return // already checked by the frame filter
	}
	a.dir.Me(r.User.ID)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.me = Identity{ID: r.User.ID, Name: r.User.Username, App: r.Application.ID}
}

func (a *Adapter) converter() inbound.Converter {
	return inbound.Converter{Account: a.o.Account, Me: a.Identity(), Rules: a.rules}
}

// expect prepares for answers to an event, which may be sent before the sink has
// returned.
func (a *Adapter) expect(e ingest.Event) {
	in := e.In
	switch {
	case in.IgnoreRule != "":
	case e.Interaction.ID != "":
		a.answers.add(&openInteraction{Interaction: e.Interaction, at: in.Address, until: time.Now().Add(tokenLife), acked: make(chan struct{}), once: new(sync.Once)})
	case in.Kind == chat.Message && in.Address.Thread == in.ID && e.Place.ID != in.ID:
		a.threads.expect(in.ID, in.Text)
	}
}

// taken acknowledges an interaction that is on disk.
func (a *Adapter) taken(ctx context.Context, e ingest.Event) {
	if n, ok := a.answers.byID(e.Interaction.ID); ok && e.In.IgnoreRule == "" {
		a.acknowledge(ctx, n)
	}
}

// wasDismissed reports, once, whether a rule ended an event that was accepted.
func (a *Adapter) wasDismissed(in chat.Inbound) bool {
	_, ok := a.dismissed.LoadAndDelete(in.IdempotencyKey)
	return ok
}

func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: textLimit, TextSize: Size, EditInterval: editInterval, CanFind: true}
}

// Identity returns the bot's own account; its ID is empty until the first
// connection.
func (a *Adapter) Identity() Identity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.me
}

func (a *Adapter) Health() chat.Health {
	h := a.health.State()
	a.mu.Lock()
	defer a.mu.Unlock()
	h.Name = a.me.Name
	if a.store != "" && h.State == chat.Connected {
		h.State, h.Error = chat.Retrying, a.store
	}
	return h
}

// changed handles a change of the connection state. After a loss it closes idle
// API connections, which are most likely lost too.
func (a *Adapter) changed(s chat.State, why string) {
	if c, ok := a.o.Transport.(interface{ CloseIdleConnections() }); ok && s != chat.Connected {
		c.CloseIdleConnections()
	}
	a.health.Set(s, why)
}

// storing records why the sink rejects events; "" means that it accepts them.
func (a *Adapter) storing(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store = why
}

// Limits of the platform; text counts in code points.
const (
	textLimit   = 2000
	buttonData  = 64
	buttonLabel = 80
	buttonRows  = 5
	rowButtons  = 5
	upLimit     = 100 << 20 // of guilds with the highest boost level; Discord rejects less where the limit is lower
	menuLimit   = 100
	menuHelp    = 100
	threadName  = 100
	nonceLength = 25
)

// Limits of the queue in memory.
const (
	feedItems = 8192
	feedBytes = 32 << 20
)

// Timeouts and intervals.
const (
	editInterval = time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second
	ackTimeout   = 2500 * time.Millisecond // Discord allows three seconds
	// tokenLife is how long an interaction can be answered, slightly less than
	// Discord's 15 minutes.
	tokenLife = 14*time.Minute + 30*time.Second
)
