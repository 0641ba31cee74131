// Package discord connects one Discord bot to the daemon.
//
// Discord's gateway cannot be asked to deliver an event again once it has been
// read. So what is read waits in memory until the sink has it on disk, and what
// memory could not keep, because the process ended or the queue was full, is
// taken from the history of the channels:
//
//	gateway ─► tap ─► library ─► feed ─► convert ─► sink.Accept
//	                               │                   │ nil: on disk
//	                               │                   ▼
//	                               │             mark of the channel ─► Memory
//	                               ▼                   │
//	     new session, or full: history after the mark ◄┘
//
// A mark is the id of the newest message of a channel up to which everything is
// on disk. Marks exist for the channels, threads and direct chats that have
// conversations. Edits, presses and commands are in no history: those that come
// while the daemon is down are lost, and people see that a press or a command
// failed.
//
// Within the process a lost connection is resumed, and Discord repeats what was
// missed. The library makes the handshake, the resume and the heartbeats; what
// it must not see, the tap keeps from it.
//
// Sends are tried once, with a nonce by which Discord knows a repeat for some
// minutes; after that Find looks into the history. What is known of a send that
// failed is in its chat.SendError; see sendError for the table.
//
// A command of the menu is answered in place by the first message to where it
// was given, for a quarter of an hour. The token for it is only in memory:
// after a restart the answer is an ordinary message.
//
// Nothing is shared between accounts: each has its own sessions of the library,
// transport and limits. The library's variables are not touched.
package discord

import (
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
	"hermesd/adapters/internal/transport"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// Options are the ports of an Adapter. All may be left empty.
type Options struct {
	// Account is the account's name in addresses; "" if there is only one.
	Account string
	// Transport carries the calls of this account; nil: its own.
	Transport http.RoundTripper
	// Dial connects to the gateway and does not add TLS; nil: by the network,
	// with TLS where the address asks for it, through the proxy.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Files downloads what people send. It must refuse private addresses where
	// that matters; nil: the account's transport.
	Files *http.Client
	// Memory keeps the marks over restarts; nil: what was said while the daemon
	// was down is not seen.
	Memory Memory
	Words  i18n.Printer // says what people read from the adapter itself
	Log    *zap.Logger
}

// A Memory keeps small values over restarts.
type Memory = ingest.Memory

// An Identity is what Discord says of the account itself.
type Identity = inbound.Identity

// An Adapter is one bot. It implements chat.Adapter and all capabilities but
// chat.Historian.
type Adapter struct {
	cfg   Config
	o     Options
	log   *zap.Logger
	rules inbound.Rules
	wire  *apiclient.Client
	files *http.Client
	dir   *inbound.Directory
	max   int // events that wait in memory for the sink

	threads  threads
	answers  openInteractions
	nonces   nonces
	unmarked unmarked

	health *health.Record

	mu    sync.Mutex // guards what follows
	store string     // why nothing can be stored; "": it can
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

// New returns an adapter that has not connected to anything yet. Its errors
// are *chat.ConfigError.
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
	rules, err := inbound.NewRules(cfg.settings())
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Transport == nil {
		if o.Transport, err = transport.New(cfg.Proxy); err != nil {
			return nil, err
		}
	}
	if o.Files == nil {
		o.Files = &http.Client{Transport: o.Transport}
	}
	a := &Adapter{cfg: cfg, o: o, log: o.Log, rules: rules, files: o.Files, dir: inbound.NewDirectory(), max: feedItems, health: health.New(o.Log)}
	if a.wire, err = apiclient.New(cfg.Token, cfg.BaseURL, a.health.Clock(o.Transport)); err != nil {
		return nil, err
	}
	return a, nil
}

// Run implements chat.Adapter. It returns nil when ctx ends, a moment later: the
// library takes a second to close a connection.
func (a *Adapter) Run(ctx context.Context, sink chat.Sink) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	feed := ingest.NewEventQueue(a.max, feedBytes)
	var wg sync.WaitGroup
	wg.Go(func() {
		ingest.Run(ctx, feed, ingest.Options{
			Sink: sink, Wire: a.wire, Dir: a.dir, Memory: a.o.Memory, Log: a.log, Converter: a.converter,
			Expect: a.expect, Taken: a.taken, Own: a.nonces.put, Storing: a.storing,
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

// connect connects to the gateway.
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

// onReady takes what READY says of the account itself.
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
		return // the tap has looked
	}
	a.dir.Me(r.User.ID)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.me = Identity{ID: r.User.ID, Name: r.User.Username, App: r.Application.ID}
}

func (a *Adapter) converter() inbound.Converter {
	return inbound.Converter{Account: a.o.Account, Me: a.Identity(), Rules: a.rules}
}

// expect prepares for answers to an event, which may come before the sink has
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

// taken tells Discord that an interaction is on disk.
func (a *Adapter) taken(ctx context.Context, e ingest.Event) {
	if n, ok := a.answers.byID(e.Interaction.ID); ok && e.In.IgnoreRule == "" {
		a.acknowledge(ctx, n)
	}
}

// Capabilities implements chat.Adapter.
func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: textLimit, TextSize: Size, CaptionLimit: textLimit, EditInterval: editInterval, CanFind: true}
}

// Identity returns what is known of the account itself; its ID is empty until
// it has connected once.
func (a *Adapter) Identity() Identity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.me
}

// Health implements chat.Adapter.
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

// changed hears of each change of the connection. One that was lost has most
// likely taken the idle ones of the calls with it.
func (a *Adapter) changed(s chat.State, why string) {
	if c, ok := a.o.Transport.(interface{ CloseIdleConnections() }); ok && s != chat.Connected {
		c.CloseIdleConnections()
	}
	a.health.Set(s, why)
}

// storing notes whether the sink takes what comes; "" means that it does.
func (a *Adapter) storing(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store = why
}
