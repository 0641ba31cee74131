// Package telegram implements the adapter that connects one Telegram bot to the
// daemon, by long polling or a webhook. Its main type is Adapter.
//
// An update is confirmed to Telegram only after the sink has stored it on disk:
//
//	poll ── getUpdates(offset) ──► Telegram
//	  │ batch
//	  ├── convert ──► sink.Accept
//	  │                  │ nil: on disk
//	  └── the next offset is the ID of the last update + 1
//
// While Accept fails, the same poll is repeated: nothing is lost and nothing is
// confirmed. The first poll of a process has no offset; repeated updates are
// recognized by their key. The library makes all other calls.
//
// A send is attempted once. The outcome of a failed send is in its
// chat.SendError; see sendError for the table. Retries are made by the caller.
package telegram

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"hermesd/adapters/internal/health"
	"hermesd/adapters/internal/mention"
	"hermesd/adapters/internal/transport"
	"hermesd/adapters/telegram/internal/apiclient"
	"hermesd/adapters/telegram/internal/entity"
	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

// Options are the dependencies of an Adapter. Only Memory and Log are required.
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
	// Memory stores the bot's own identity across restarts.
	Memory chat.Memory
	// Was returns the IDs that a chat had before it was migrated; the
	// configuration may still use them. nil means that none is known.
	Was func(id string) []string
	// Listen opens the webhook's socket; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	Log    *zap.Logger
}

// An Adapter connects one bot. It implements chat.Adapter and the optional
// interfaces of chat that Telegram supports. It is not a chat.Finder: Telegram
// offers no way to ask whether a message arrived.
type Adapter struct {
	cfg   Config
	o     Options
	log   *zap.Logger
	rules mention.Rules
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
	r, err := mention.NewRules(cfg.settings())
	if err != nil {
		return nil, &chat.ConfigError{Platform: chat.Telegram, Reason: err.Error()}
	}
	a := &Adapter{cfg: cfg, o: o, log: o.Log, rules: r, files: o.Files, conv: inbound.Converter.Convert, health: health.New(o.Log)}
	a.wire = &apiclient.Client{RT: o.Transport, Token: cfg.Token.Reveal()}
	if o.Transport == nil {
		if a.wire.RT, err = transport.New(cfg.Proxy); err != nil {
			return nil, &chat.ConfigError{Platform: chat.Telegram, Reason: err.Error()}
		}
	}
	a.files = cmp.Or(a.files, &http.Client{Transport: a.wire.RT})
	a.wire.RT = a.health.Clock(a.wire.RT)
	a.api, err = bot.New(cfg.Token.Reveal(), bot.WithServerURL(cfg.BaseURL), bot.WithSkipGetMe(), bot.WithHTTPClient(callTimeout, a.wire))
	if err != nil {
		return nil, &chat.ConfigError{Platform: chat.Telegram, Reason: a.wire.Mask(err.Error())}
	}
	a.me = newSelf(a.api.ID())
	return a, nil
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
	if ce, ok := errors.AsType[*chat.ConfigError](context.Cause(ctx)); ok {
		a.health.Set(chat.Failed, ce.Reason)
		return ce
	}
	return nil
}

func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: textLimit, TextSize: Size, EditInterval: editInterval}
}

func (a *Adapter) Health() chat.Health {
	h := a.health.State()
	id := a.me.get()
	h.Name = id.Username
	if id.Username != "" && !id.ReadsAll {
		h.Note = "privacy mode is on: in groups it gets only commands, replies to it and what mentions it (/setprivacy of @BotFather changes that)"
	}
	return h
}

// Limits of the platform, text in UTF-16 units.
const (
	textLimit  = 4096
	buttonData = 64
	downLimit  = 20 << 20 // getFile on the public server
	upLimit    = 50 << 20
	photoLimit = 10 << 20
	menuLimit  = 100
)

// Timeouts and intervals.
const (
	editInterval = time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second // getMe, getWebhookInfo
	pollMargin   = 5 * time.Second  // added to the poll timeout, after which the connection counts as dead
	nameWait     = time.Second      // between polls while group messages wait for the bot's name
	webhookCheck = time.Minute
)

// PublishCommands implements chat.CommandPublisher, for direct chats and for
// groups. It writes only if the menu differs from the current one.
func (a *Adapter) PublishCommands(ctx context.Context, commands []chat.CommandInfo) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	want := menu(commands)
	for _, scope := range []models.BotCommandScope{
		&models.BotCommandScopeAllPrivateChats{}, &models.BotCommandScopeAllGroupChats{},
	} {
		have, err := a.api.GetMyCommands(ctx, &bot.GetMyCommandsParams{Scope: scope})
		if err != nil {
			return fmt.Errorf("read command menu: %w", sendError(err, chat.Address{}))
		}
		if slices.Equal(have, want) {
			continue
		}
		if _, err := a.api.SetMyCommands(ctx, &bot.SetMyCommandsParams{Commands: want, Scope: scope}); err != nil {
			return fmt.Errorf("write command menu: %w", sendError(err, chat.Address{}))
		}
	}
	return nil
}

// menu returns the commands that Telegram can show, under valid names.
func menu(items []chat.CommandInfo) []models.BotCommand {
	out := make([]models.BotCommand, 0, len(items))
	seen := make(map[string]bool)
	for _, it := range items {
		name := menuName(it.Name)
		if name == "" || seen[name] || len(out) == menuLimit {
			continue
		}
		seen[name] = true
		help := cmp.Or(entity.Cut(strings.Join(strings.Fields(it.Help), " "), 256), name)
		out = append(out, models.BotCommand{Command: name, Description: help})
	}
	return out
}

// menuName returns name in Telegram's alphabet, "" if that is not possible: 1 to
// 32 characters a-z, 0-9 and underscore.
func menuName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "/")), "-", "_")
	foreign := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }
	if len(name) > 32 || strings.ContainsFunc(name, foreign) {
		return ""
	}
	return name
}

// take offers a batch of raw updates to sink. It returns how many of them, from
// the first, may be confirmed: all, or those before the first that waits for the
// bot's own name. Later updates that do not need the name are accepted too;
// their keys make a repeat harmless.
func (a *Adapter) take(ctx context.Context, sink chat.Sink, raws []json.RawMessage) (n int, err error) {
	c := a.converter()
	n = len(raws)
	batch := make([]chat.Inbound, 0, len(raws))
	for i, raw := range raws {
		in, v := a.convert(c, raw)
		switch v {
		case inbound.Converted:
			batch = append(batch, in)
			if in.Kind == chat.Migrated { // later updates may use the chat's new ID
				c = c.After(in.Address.Chat, in.MigratedTo.Chat)
			}
		case inbound.NeedsBotName:
			n = min(n, i)
		}
	}
	if len(batch) == 0 {
		return n, nil
	}
	if err := accept(ctx, sink, batch); err != nil {
		return 0, err
	}
	return n, nil
}

func (a *Adapter) converter() inbound.Converter {
	return inbound.Converter{Account: a.o.Account, Me: a.me.get(), Rules: a.rules, Was: a.o.Was}
}

// convert converts one update. It always settles the update: one that cannot be
// converted is recorded if it says where it happened, and never fetched again.
func (a *Adapter) convert(c inbound.Converter, raw json.RawMessage) (in chat.Inbound, v inbound.ConvertResult) {
	quarantine := func(err error) (chat.Inbound, inbound.ConvertResult) {
		id, _ := inbound.ID(raw)
		a.log.Error("cannot convert update", zap.Int64("update", id), zap.String("rule", inbound.RuleUnreadable), zap.Error(err))
		a.log.Debug("unconverted update", zap.ByteString("raw", raw))
		if in, ok := c.Quarantined(raw, id); ok {
			return in, inbound.Converted
		}
		return chat.Inbound{}, inbound.Skipped
	}
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("cannot convert update: panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			in, v = quarantine(fmt.Errorf("panic: %v", p))
		}
	}()
	if in, v, err := a.conv(c, raw, time.Now()); err != nil {
		return quarantine(err)
	} else if v != inbound.Skipped {
		return in, v
	}
	id, _ := inbound.ID(raw)
	if in, ok := c.Quarantined(raw, id); ok {
		return in, inbound.Converted
	}
	a.log.Info("update skipped", zap.Int64("update", id), zap.String("rule", inbound.RuleUnsupported))
	return chat.Inbound{}, inbound.Skipped
}

// accept passes a batch to the sink; a panic of the sink counts as a rejection.
func accept(ctx context.Context, sink chat.Sink, batch []chat.Inbound) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("accept: panic: %v", p)
		}
	}()
	return sink.Accept(ctx, batch)
}

// An Identity is the bot's own account. Username is empty until it is known.
// ReadsAll is true if privacy mode is off.
type Identity = inbound.Identity

// A botIdentity holds the bot's identity. The ID is part of the token; the name
// has to be fetched.
type botIdentity struct {
	known chan struct{} // closed once the name is known

	mu sync.Mutex // guards the fields below
	id Identity
}

func newSelf(id int64) *botIdentity {
	return &botIdentity{known: make(chan struct{}), id: Identity{ID: id}}
}

func (s *botIdentity) get() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func (s *botIdentity) set(id Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.id.Username == "" && id.Username != ""
	s.id = id
	if first {
		close(s.known)
	}
}

// Identity returns the bot's own identity; ok is false until its name is known.
func (a *Adapter) Identity() (id Identity, ok bool) {
	id = a.me.get()
	return id, id.Username != ""
}

// learn determines the bot's name: from memory at once, then from Telegram,
// retrying until it succeeds.
func (a *Adapter) learn(ctx context.Context, stop context.CancelCauseFunc) {
	a.recall(ctx)
	var b backoff.Backoff
	for ctx.Err() == nil {
		err := a.ask(ctx)
		if err == nil {
			return
		}
		if ce := configError(err); ce != nil {
			stop(ce)
			return
		}
		a.log.Warn("cannot fetch bot identity", zap.Error(err))
		if backoff.Sleep(ctx, max(b.Next(), sendError(err, chat.Address{}).RetryAfter)) != nil {
			return
		}
	}
}

// ask fetches the bot's identity from Telegram and stores it.
func (a *Adapter) ask(ctx context.Context) error {
	actx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u, err := a.api.GetMe(actx)
	if err != nil {
		return err
	}
	id := Identity{ID: u.ID, Username: u.Username, Name: strings.TrimSpace(u.FirstName + " " + u.LastName), ReadsAll: u.CanReadAllGroupMessages}
	if id.Username == "" {
		id.Username = strconv.FormatInt(u.ID, 10) // never matches a mention
	}
	a.me.set(id)
	v, err := json.Marshal(id)
	if err == nil {
		err = a.o.Memory.SetValue(ctx, a.memoryKey(), v)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("cannot save bot identity", zap.Error(err))
	}
	return nil
}

// recall loads the identity that an earlier process stored.
func (a *Adapter) recall(ctx context.Context) {
	v, err := a.o.Memory.Value(ctx, a.memoryKey())
	if err != nil {
		a.log.Warn("cannot load bot identity", zap.Error(err))
		return
	}
	var id Identity
	if json.Unmarshal(v, &id) == nil && id.ID == a.api.ID() && id.Username != "" {
		a.me.set(id)
	}
}

// memoryKey contains the bot's ID and not the account's name, because an account
// may change its token.
func (a *Adapter) memoryKey() string {
	return string(chat.Telegram) + ".me." + strconv.FormatInt(a.api.ID(), 10)
}
