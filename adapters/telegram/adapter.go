// Package telegram implements the adapter that connects one Telegram bot to the
// daemon, by long polling or a webhook. Its main type is Adapter.
//
// An update is confirmed to Telegram only after the sink has stored it on disk.
// The library confirms an update with its next poll, so the answer to a poll is
// held back inside the library's HTTP client until then:
//
//	library ── getUpdates(offset) ──► poller.Do ──► Telegram
//	                                     │ batch
//	                                     ├── convert ──► sink.Accept
//	                                     │                  │ nil: on disk
//	library ◄── id of the last update ───┘◄─────────────────┘
//	   └── the next offset is that id + 1
//
// While Accept fails, the library gets no answer and the same poll is repeated:
// nothing is lost and nothing is confirmed. The first poll of a process has no
// offset; repeated updates are recognized by their key.
//
// A send is attempted once. The outcome of a failed send is in its
// chat.SendError; see sendError for the table. Retries are made by the caller.
package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-telegram/bot"
	"go.uber.org/zap"

	"hermesd/adapters/internal/health"
	"hermesd/adapters/internal/transport"
	"hermesd/adapters/telegram/internal/apiclient"
	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
)

// Options are the dependencies of an Adapter. All are optional.
type Options struct {
	// Account is the account's name in addresses; "" if there is only one
	// account.
	Account string
	// Transport carries the calls and polls of this account; nil means a
	// transport of its own.
	Transport http.RoundTripper
	// Files downloads attachments. It must refuse private addresses where that
	// matters; nil means the account's transport.
	Files *http.Client
	// Memory stores the bot's own identity across restarts; nil means that it is
	// fetched at each start.
	Memory Memory
	// Was returns the IDs that a chat had before it was migrated; the
	// configuration may still use them. nil means that none is known.
	Was func(id string) []string
	// Listen opens the webhook's socket; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	Log    *zap.Logger
}

// A Memory stores small values across restarts.
type Memory interface {
	// Value returns the value stored under key, nil if there is none.
	Value(ctx context.Context, key string) ([]byte, error)
	SetValue(ctx context.Context, key string, v []byte) error
}

// An Adapter connects one bot. It implements chat.Adapter and the optional
// interfaces of chat that Telegram supports. It is not a chat.Finder: Telegram
// offers no way to ask whether a message arrived.
type Adapter struct {
	cfg   Config
	o     Options
	log   *zap.Logger
	rules inbound.Rules
	wire  *apiclient.Client
	api   *bot.Bot // calls
	files *http.Client
	me    *botIdentity
	// conv converts one update: inbound.Converter.Convert.
	conv   func(inbound.Converter, json.RawMessage, time.Time) (chat.Inbound, inbound.ConvertResult, error)
	health *health.Record
}

var _ interface {
	chat.Adapter
	chat.Editor
	chat.Deleter
	chat.Typer
	chat.FileFetcher
	chat.CallbackAnswerer
	chat.CommandPublisher
} = (*Adapter)(nil)

// New returns an adapter that has not connected yet. Its errors are
// *chat.ConfigError.
func New(cfg Config, o Options) (*Adapter, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, &chat.ConfigError{Platform: chat.Telegram, Reason: err.Error()}
	}
	r, err := inbound.NewRules(cfg.settings())
	if err != nil {
		return nil, &chat.ConfigError{Platform: chat.Telegram, Reason: err.Error()}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	a := &Adapter{cfg: cfg, o: o, log: o.Log, rules: r, files: o.Files, conv: inbound.Converter.Convert, health: health.New(o.Log)}
	a.wire = &apiclient.Client{RT: o.Transport, Token: cfg.Token.Reveal()}
	if o.Transport == nil {
		if a.wire.RT, err = transport.New(cfg.Proxy); err != nil {
			return nil, &chat.ConfigError{Platform: chat.Telegram, Reason: err.Error()}
		}
	}
	if a.files == nil {
		a.files = &http.Client{Transport: a.wire.RT}
	}
	a.wire.RT = a.health.Clock(a.wire.RT)
	if a.api, err = a.newBot(a.wire); err != nil {
		return nil, &chat.ConfigError{Platform: chat.Telegram, Reason: a.wire.Mask(err.Error())}
	}
	a.me = newSelf(a.api.ID())
	return a, nil
}

// newBot returns a library client that sends its requests through c. It does not
// connect.
func (a *Adapter) newBot(c bot.HttpClient, more ...bot.Option) (*bot.Bot, error) {
	options := append([]bot.Option{
		bot.WithServerURL(a.cfg.BaseURL),
		bot.WithSkipGetMe(),
		bot.WithHTTPClient(a.cfg.PollTimeout+time.Second, c), // the library subtracts a second
		bot.WithErrorsHandler(func(err error) {
			a.log.Debug("client library error", zap.String("err", a.wire.Mask(err.Error())))
		}),
		bot.WithDebugHandler(func(string, ...any) {}),
	}, more...)
	return bot.New(a.cfg.Token.Reveal(), options...)
}

// Run implements chat.Adapter. It returns nil when ctx ends.
func (a *Adapter) Run(ctx context.Context, sink chat.Sink) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	wg.Go(func() { a.learn(ctx, stop) })
	if a.cfg.WebhookURL != "" {
		a.serve(ctx, sink, stop)
	} else {
		a.poll(ctx, sink, stop)
	}
	stop(nil)
	wg.Wait()
	var ce *chat.ConfigError
	if errors.As(context.Cause(ctx), &ce) {
		a.health.Set(chat.Failed, ce.Reason)
		return ce
	}
	return nil
}

// Capabilities implements chat.Adapter.
func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: textLimit, TextSize: Size, CaptionLimit: captionLimit, EditInterval: editInterval}
}

// Health implements chat.Adapter.
func (a *Adapter) Health() chat.Health {
	h := a.health.State()
	id := a.me.get()
	h.Name = id.Username
	if id.Username != "" && !id.ReadsAll {
		h.Note = "privacy mode is on: in groups it gets only commands, replies to it and what mentions it (/setprivacy of @BotFather changes that)"
	}
	return h
}
