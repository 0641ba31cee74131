// Package app is the process as a value: it builds the daemon out of its parts,
// starts it, and stops it in the reverse order.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/agent/tools/files"
	"hermesd/agent/tools/todo"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/media"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
	"hermesd/storage"
	"hermesd/storage/bolt"
	"hermesd/systemd"
)

// Options are what an App is built from.
type Options struct {
	Config *config.Config
	Report config.Report
	Home   string
	// ConsoleOnly connects no platform: the local chat alone.
	ConsoleOnly bool
	Version     string
	Log         *zap.Logger
	// Say tells a person at the terminal one line about the start; nil: nobody.
	Say func(line string)
}

// An App is the daemon. Run is called once.
type App struct {
	o        Options
	home     *storage.Home
	store    *bolt.Store
	files    *files.Workspace
	console  *console.Adapter
	adapters map[chat.Account]chat.Adapter
	gateway  *gateway.Gateway
	agent    *agent.Agent
	ready    chan struct{}
	notifier systemd.Notifier
	undo     []func() error // what New has done, to be undone in reverse
}

// New opens the home, which it takes for itself, and builds the daemon. Nothing
// runs yet. Its errors are those of config, storage and chat, so that the
// command line can choose its exit code.
func New(ctx context.Context, o Options) (*App, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	pace()
	a := &App{o: o, ready: make(chan struct{}), adapters: make(map[chat.Account]chat.Adapter)}
	if err := a.build(ctx); err != nil {
		return nil, errors.Join(err, a.unwind())
	}
	return a, nil
}

func (a *App) build(ctx context.Context) (err error) {
	if a.home, err = storage.Open(a.o.Home); err != nil {
		return err
	}
	a.undo = append(a.undo, a.home.Close)
	damaged := func(err error) { a.o.Log.Error("a stored record is damaged and was set aside", zap.Error(err)) }
	if a.store, err = bolt.Open(ctx, a.home.Path("hermesd.db"), bolt.Options{OnDamage: damaged}); err != nil {
		return err
	}
	a.undo = append(a.undo, a.store.Close)
	tools, err := a.tools()
	if err != nil {
		return err
	}
	provider, err := a.provider()
	if err != nil {
		return err
	}
	a.agent = agent.New(a.o.Config.Agent.Config, provider, tools, agent.OnPanic(func(name string, value any, stack []byte) {
		a.o.Log.Error("panic in a tool", zap.String("tool", name), zap.Any("panic", value), zap.ByteString("stack", stack))
	}))
	a.console = console.New(console.Options{OnAttach: a.attached})
	a.adapters[chat.Account{Platform: chat.Console}] = a.console
	if !a.o.ConsoleOnly {
		if err := a.connect(); err != nil {
			return err
		}
	}
	return a.join(tools)
}

// tools opens the workspace and returns the tools of the agent.
func (a *App) tools() (tool.Set, error) {
	dir := a.o.Config.Workspace(a.o.Home)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tool.Set{}, fmt.Errorf("workspace: %w", err)
	}
	w, err := files.Open(dir)
	if err != nil {
		return tool.Set{}, err
	}
	a.files = w
	a.undo = append(a.undo, w.Close)
	return tool.NewSet(append(w.Tools(), todo.New())...)
}

// join puts the gateway together.
func (a *App) join(tools tool.Set) error {
	c := a.o.Config
	check, err := access.New(c.AccessPolicy())
	if err != nil {
		return err
	}
	cache, err := media.Open(a.home.Path("cache", "media"), media.Config{MaxBytes: maxFile, CacheBytes: maxCache})
	if err != nil {
		return err
	}
	model := a.o.Report.Model
	a.gateway = gateway.New(gateway.Options{
		Store: a.store, Agent: a.agent, Adapters: a.adapters, Access: check,
		Prefix: func(r session.Record) prompt.Prefix {
			return prompt.Build(prompt.Inputs{
				Name: c.Agent.Name, SystemMessage: c.Agent.SystemMessage, Started: r.Created.In(c.Location()),
				Session: string(r.ID), Model: model.Model, Provider: model.Provider, Platform: string(r.At.Platform),
				Tools: offered(tools.Tools(), c.Accounts()[r.At.On()].Toolsets),
			})
		},
		Fetch: a.fetcher(cache), Homes: homes(c), Quote: quotes(c), Ceilings: c.Ceilings(),
		Model: model.Model, Effort: c.Agent.ReasoningEffort, CacheTTL: c.PromptCaching.CacheTTL, Vision: sees(model.Provider),
		Ephemeral: c.Agent.EphemeralSystemPrompt, Reset: reset(c), Progress: c.Display.ToolProgress, RedactPII: c.Privacy.RedactPII, Mode: turn.Mode(c.Display.BusyInputMode), Policy: c.SessionPolicy(),
		Uncertain: outbox.Policy(c.Delivery.Uncertain), Streaming: c.Streaming.Enabled, EditInterval: c.Streaming.EditInterval,
		EditFirst: c.Delivery.EditFirst, Backlog: c.Backlog.MaxAge, Location: c.Location(), Version: a.o.Version,
		Limits: c.Gateway, Masker: a.masker(), Log: a.o.Log,
	})
	return nil
}

// The sizes of incoming files: of one, and of all that are kept.
const (
	maxFile  = 50 << 20
	maxCache = 2 << 30
)

// Ready is closed once the daemon takes messages.
func (a *App) Ready() <-chan struct{} { return a.ready }

// Gateway returns the road.
func (a *App) Gateway() *gateway.Gateway { return a.gateway }

// Store returns the store.
func (a *App) Store() gateway.Store { return a.store }

// Console returns the local chat.
func (a *App) Console() *console.Adapter { return a.console }

// waited reports whether a row has not been shown for want of a terminal.
func waited(r outbox.Row) bool {
	return r.State == outbox.NotSent || r.State == outbox.Dead && strings.HasPrefix(r.Reason, console.Nobody)
}

// attached makes due what waited for a terminal.
func (a *App) attached(to chat.Address) {
	ctx := context.Background()
	rows, err := a.store.Outbox(ctx, false)
	if err != nil {
		a.o.Log.Error("outbox", zap.Error(err))
		return
	}
	for _, r := range rows {
		if r.Msg.To == to && waited(r) {
			if err := a.store.RetryRow(ctx, r.ID); err != nil {
				a.o.Log.Warn("retry", zap.Stringer("row", r.ID), zap.Error(err))
			}
		}
	}
	a.gateway.Delivery().Wake(to)
}

// Run starts the daemon and keeps it going until ctx ends; then it stops in
// good order and returns what could not be finished.
func (a *App) Run(ctx context.Context) error {
	defer func() {
		if err := a.unwind(); err != nil {
			a.o.Log.Error("stop", zap.Error(err))
		}
	}()
	control, err := admin.Serve(a.o.Home, admin.NewHandler(admin.Options{
		Store: a.store, Status: a.gateway.Status, Wake: a.gateway.Delivery().Wake, Commands: a.gateway.Commands().All(),
		Console: a.console, Home: a.o.Home, Version: a.o.Version, Masker: a.o.Report.Secrets, Log: a.o.Log.Named("control"),
	}))
	if err != nil {
		return err
	}
	a.undo = append(a.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return control.Close(ctx)
	})
	if err := a.gateway.Start(ctx); err != nil {
		return err
	}
	edge, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var running sync.WaitGroup // the adapters, the watchdog and the menus
	a.start(edge, &running)
	close(a.ready)
	a.notify(a.notifier.Ready())
	<-ctx.Done()
	a.notify(a.notifier.Stopping())
	// Adapters still accept while turns finish: what they take is on disk.
	err = a.gateway.Stop(context.WithoutCancel(ctx))
	cut()
	running.Wait()
	return err
}

// start runs the adapters.
func (a *App) start(ctx context.Context, running *sync.WaitGroup) {
	for account, ad := range a.adapters {
		running.Go(func() {
			if err := ad.Run(ctx, a.gateway); err != nil && ctx.Err() == nil {
				a.o.Log.Error("platform is down", zap.String("platform", string(account.Platform)), zap.Error(err))
				a.o.Say(fmt.Sprintf("❌ %v", err))
			}
		})
		if m, ok := ad.(chat.MenuSetter); ok {
			running.Go(func() { a.menu(ctx, account, m) })
		}
	}
	running.Go(func() { a.notify(a.notifier.Watchdog(ctx, a.alive)) })
}

// menu publishes the commands, again and again until the platform takes them.
func (a *App) menu(ctx context.Context, account chat.Account, m chat.MenuSetter) {
	for wait := 2 * time.Second; ; wait = min(2*wait, 10*time.Minute) {
		err := m.SetMenu(ctx, a.gateway.Commands().Menu(access.Member))
		var config *chat.ConfigError
		if err == nil || ctx.Err() != nil || errors.As(err, &config) {
			return
		}
		a.o.Log.Warn("command menu", zap.String("platform", string(account.Platform)), zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// alive proves to the watchdog that the store still takes writes.
func (a *App) alive() error {
	now, err := json.Marshal(time.Now().UTC())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return a.store.SetValue(ctx, "alive", now)
}

func (a *App) notify(err error) {
	if err != nil {
		a.o.Log.Warn("service manager", zap.Error(err))
	}
}

// unwind undoes what was done, in reverse. It may be called more than once.
func (a *App) unwind() error {
	var errs error
	for len(a.undo) > 0 {
		last := a.undo[len(a.undo)-1]
		a.undo = a.undo[:len(a.undo)-1]
		errs = errors.Join(errs, last())
	}
	return errs
}
