// Package app is the process as a value: it builds the daemon out of its parts,
// starts it, and stops it in the reverse order.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/agent/tools/files"
	"hermesd/agent/tools/terminal"
	"hermesd/agent/tools/todo"
	"hermesd/agent/tools/web"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/config/profile"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/media"
	"hermesd/gateway/outbox"
	"hermesd/gateway/turn"
	"hermesd/internal/spawn"
	"hermesd/storage"
	"hermesd/storage/bolt"
	"hermesd/storage/index"
	"hermesd/systemd"
)

// Options are what an App is built from.
type Options struct {
	Config *config.Config
	Report config.Report
	Home   string
	// ConsoleOnly connects no platform: the local chat alone.
	ConsoleOnly bool
	// WorkDir is the directory that the person at the terminal works in, in the place of
	// terminal.cwd. Nobody else may work there, so only the local chat has turns, and
	// scheduled prompts wait. "": as configured.
	WorkDir string
	// CanRestart says that whoever runs the App starts it again when Run returns
	// ErrRestart.
	CanRestart bool
	// Load reads the configuration again; nil: it never changes. Level sets the least
	// level that is logged.
	Load    func() (*config.Config, config.Report, error)
	Level   func(level string)
	Version string
	Log     *zap.Logger
	// Web changes how pages are read, for tests; nil: nothing is changed.
	Web func(*web.Options)
	// Say tells a person at the terminal one line about the start; nil: nobody.
	Say func(line string)
}

// An App is the daemon. Run is called once.
type App struct {
	opts       Options
	home       *storage.Home
	store      *bolt.Store
	files      *files.Workspace
	set        tool.Set
	words      i18n.Printer                   // says what people read
	commands   *terminal.Terminal             // nil: there is none
	sandbox    func() (*spawn.Sandbox, error) // looked for once; nil: there is no terminal
	telemetry  telemetry
	makeEngine engineMaker
	host       *plugin.Host      // the program that is the context engine; nil: there is none
	summarise  summary.Completer // what is configured for summaries; nil: what answers
	cache      *media.Cache
	index      *index.Follower
	found      *index.Index
	console    *console.Adapter
	adapters   map[chat.Account]chat.Adapter
	gateway    *gateway.Gateway
	agent      *agent.Agent
	models     *models
	lengths    *contextLengths
	prompts    *promptInputs
	pairing    *pairing.Manager
	moves      *chatmigration.Registry
	enforce    prompt.Enforcement
	prefill    []llm.Message
	ready      chan struct{}
	restart    chan struct{} // closed when a person asks for a restart
	asked      sync.Once     // guards restart
	notifier   systemd.Notifier
	gate       accessGate
	reload     reloader
	watchdog   watchdog
	only       chat.Platform  // whose turns may begin; "": all
	undo       []func() error // what New has done, to be undone in reverse
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
	a := &App{opts: o, telemetry: newTelemetry(), ready: make(chan struct{}), restart: make(chan struct{}), reload: reloader{turn: make(chan struct{}, 1)}, adapters: make(map[chat.Account]chat.Adapter)}
	a.opts.Log = a.telemetry.Log(o.Log)
	if o.WorkDir != "" {
		c := *o.Config
		c.Terminal.CWD, a.opts.Config, a.only = o.WorkDir, &c, chat.Console
	}
	if err := a.build(ctx); err != nil {
		return nil, errors.Join(err, a.unwind())
	}
	return a, nil
}

func (a *App) build(ctx context.Context) (err error) {
	if a.home, err = storage.Open(a.opts.Home); err != nil {
		return err
	}
	a.undo = append(a.undo, a.home.Close)
	damaged := func(err error) {
		a.telemetry.Damaged()
		a.opts.Log.Error("a stored record is damaged and was set aside", zap.Error(err))
	}
	if a.store, err = bolt.Open(ctx, a.home.Path("hermesd.db"), bolt.Options{OnDamage: damaged, OnCommit: a.telemetry.Committed}); err != nil {
		return err
	}
	a.undo = append(a.undo, a.store.Close)
	a.trace()
	if err := a.openPairing(ctx); err != nil {
		return err
	}
	if a.moves, err = chatmigration.Open(ctx, a.store); err != nil {
		return err
	}
	if err := a.openContextLengths(ctx); err != nil {
		return err
	}
	if a.words, err = i18n.For(a.opts.Config.Display.Language); err != nil {
		return wrongKey("display.language", err)
	}
	if err := a.loadPromptInputs(); err != nil {
		return err
	}
	a.prompts.words = a.words
	tools, err := a.tools()
	if err != nil {
		return err
	}
	a.set = tools
	if a.cache, err = media.Open(MediaDir(a.home), media.Config{MaxBytes: maxFile, CacheBytes: maxCache}); err != nil {
		return err
	}
	a.agent = agent.New(a.opts.Config.Agent.Config, a.provider(), tools, agent.OnPanic(a.toolPanic))
	a.console = console.New(console.Options{OnAttach: a.attached})
	a.adapters[chat.Account{Platform: chat.Console}] = a.console
	if !a.opts.ConsoleOnly {
		a.connect()
	}
	return a.join(tools)
}

// tools opens the workspace and returns the tools of the agent.
func (a *App) tools() (tool.Set, error) {
	dir := a.opts.Config.Workspace(a.opts.Home)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tool.Set{}, fmt.Errorf("workspace: %w", err)
	}
	w, err := files.Open(dir)
	if err != nil {
		return tool.Set{}, err
	}
	a.files = w
	a.undo = append(a.undo, w.Close)
	ts := slices.Concat(w.Tools(), w.Writers(files.Options{Deny: a.protected}), []tool.Tool{todo.New()})
	if find, err := a.openIndex(); err == nil {
		ts = append(ts, find)
	} else { // it can be made anew at any time; conversations go on without it
		a.opts.Log.Error("past conversations cannot be searched", zap.Error(err))
		a.opts.Say(fmt.Sprintf("⚠️ past conversations cannot be searched: %v", err))
	}
	act, err := a.actionTools()
	if err != nil {
		return tool.Set{}, err
	}
	if a.makeEngine, err = a.engine(a.opts.Config.Context.Engine); err != nil {
		return tool.Set{}, err
	}
	ts = slices.Concat(ts, act, a.recallTools())
	return tool.NewSet(append(ts, a.prompts.tools(a.store.SessionByID)...)...)
}

// join puts the gateway together.
func (a *App) join(tools tool.Set) error {
	c := a.opts.Config
	check, err := a.checker(a.opts.Config)
	if err != nil {
		return err
	}
	a.gate.now.Store(check)
	var restart func()
	if a.opts.CanRestart {
		restart = a.again
	}
	senses, err := a.mediaServices()
	if err != nil {
		return err
	}
	model := a.opts.Report.Model
	compression, err := a.compression()
	if err != nil {
		return err
	}
	a.gateway = gateway.New(gateway.Options{
		OnlyPlatform: a.only, Profile: profile.FromHome(a.opts.Home), Store: a.store, Agent: a.agent, Adapters: a.adapters, Access: &a.gate, Pairing: a.pairing, Moves: a.moves,
		Prefix: a.prefix(tools), Models: a.models, HomeInfo: a.about(), CheckTool: a.prompts.toolDenied, Skill: a.prompts.skill, Discover: a.prompts.discover, Note: a.prompts.note,
		Cron: a.cron(), Printer: a.words, Media: senses, Title: a.titles(), Approvals: turn.Approvals{Mode: c.Approvals.Mode, Timeout: c.Approvals.Timeout, Review: a.approvalReviewer()},
		Compression: compression, Window: a.lengths.of(model), Prefill: a.prefill, Placement: prompt.Placement(c.Agent.OverlayPlacement), Personality: personalities(c),
		Attach: a.attach, BackgroundCommands: a.background, Observe: a.telemetry.Observe, OnCommit: a.committed, OnSessionDeleted: a.forgotten, Restart: restart, Fetch: a.fetcher().Fetch, HomeChannels: homes(c), ReplyToMode: quotes(c), RateLimits: c.Ceilings(),
		Model: model.Model, Effort: c.Agent.ReasoningEffort, CacheTTL: c.PromptCaching.CacheTTL, Vision: sees(model.Provider),
		Ephemeral: c.Agent.EphemeralSystemPrompt, Reset: resets(c), Progress: c.Display.ToolProgress, Acknowledge: c.Display.BusyAck, RedactPII: c.Privacy.RedactPII, Mode: inbox.Mode(c.Display.BusyInputMode), Policy: c.SessionPolicy(),
		Uncertain: outbox.UncertainPolicy(c.Delivery.Uncertain), Streaming: c.Streaming.Enabled, EditInterval: c.Streaming.EditInterval,
		EditFirst: c.Delivery.EditFirst, Backlog: c.Backlog.MaxAge, Location: c.Location(), Version: a.opts.Version,
		Limits: c.Gateway, Masker: a.masker(), Log: a.opts.Log,
	})
	a.telemetry.Watch(a.measured())
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
	return r.State == outbox.NotSent || r.State == outbox.Dead && strings.HasPrefix(r.Reason, console.NoTerminal)
}

// attached makes due what waited for a terminal.
func (a *App) attached(to chat.Address) {
	ctx := context.Background()
	rows, err := a.store.Outbox(ctx, false)
	if err != nil {
		a.opts.Log.Error("outbox", zap.Error(err))
		return
	}
	for _, r := range rows {
		if r.Msg.To == to && waited(r) {
			if err := a.store.RetryRow(ctx, r.ID); err != nil {
				a.opts.Log.Warn("retry", zap.Stringer("row", r.ID), zap.Error(err))
			}
		}
	}
	a.gateway.Delivery().Wake(to)
}

// ErrRestart is returned by Run when a person has asked for a restart.
var ErrRestart = errors.New("app: restart")

// again has Run return ErrRestart once it has stopped.
func (a *App) again() { a.asked.Do(func() { close(a.restart) }) }

// Run starts the daemon and keeps it going until ctx ends or a restart is asked
// for; then it stops in good order and returns what could not be finished.
func (a *App) Run(ctx context.Context) error {
	defer func() {
		if err := a.unwind(); err != nil {
			a.opts.Log.Error("stop", zap.Error(err))
		}
	}()
	control, err := admin.Serve(a.opts.Home, admin.NewHandler(admin.Options{
		Store: a.store, Upkeep: Maintenance(a.store, a.found), Config: a.configState, Reload: a.Reload, Keeper: a.store, Eraser: a.eraser(), Search: a.search(), Status: a.gateway.Status, Metrics: a.telemetry.page, Wake: a.gateway.Delivery().Wake, Commands: a.gateway.Commands().All(),
		Cron: a.gateway.JobManager(), CronStatus: a.gateway.CronStatus, Pairing: a.pairing, Tell: a.tell, Sender: sender{a}, Console: a.console, Prices: a.opts.Report.Prices, Home: a.opts.Home, Workspace: a.prompts.workspace, Version: a.opts.Version, Masker: a.opts.Report.Secrets, Log: a.opts.Log.Named("control"),
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
	defer time.AfterFunc(settled, releaseMemory).Stop()
	var again error
	select {
	case <-ctx.Done():
	case <-a.restart:
		again = ErrRestart
	}
	a.notify(a.notifier.Stopping())
	// Adapters still accept while turns finish: what they take is on disk.
	err = a.gateway.Stop(context.WithoutCancel(ctx))
	cut()
	running.Wait()
	return errors.Join(again, err)
}

// settled is how long after the start everything has been used once.
const settled = 5 * time.Second

// start runs the adapters.
func (a *App) start(ctx context.Context, running *sync.WaitGroup) {
	for account, ad := range a.adapters {
		running.Go(func() {
			if err := ad.Run(ctx, a.gateway); err != nil && ctx.Err() == nil {
				a.opts.Log.Error("platform is down", zap.String("platform", string(account.Platform)), zap.Error(err))
				a.opts.Say(fmt.Sprintf("❌ %v", err))
			}
		})
		if m, ok := ad.(chat.CommandPublisher); ok {
			running.Go(func() { a.menu(ctx, account, m) })
		}
	}
	if a.index != nil {
		running.Go(func() { a.index.Run(ctx) })
	}
	running.Go(func() { a.notify(a.notifier.Watchdog(ctx, a.alive)) })
	running.Go(func() { a.lengths.ask(ctx) })
	running.Go(func() { a.follow(ctx) })
	running.Go(func() { a.expire(ctx) })
	if a.sandbox != nil {
		running.Go(func() { _, _ = a.sandbox() }) // it says itself what it finds
	}
}

// menu publishes the commands, again and again until the platform takes them.
func (a *App) menu(ctx context.Context, account chat.Account, m chat.CommandPublisher) {
	level := access.Member
	if account.Platform == chat.Discord { // where what is not in the menu cannot be given
		level = access.Owner
	}
	for wait := 2 * time.Second; ; wait = min(2*wait, 10*time.Minute) {
		err := m.PublishCommands(ctx, a.gateway.Commands().Menu(level))
		var config *chat.ConfigError
		if err == nil || ctx.Err() != nil || errors.As(err, &config) {
			return
		}
		a.opts.Log.Warn("command menu", zap.String("platform", string(account.Platform)), zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (a *App) notify(err error) {
	if err != nil {
		a.opts.Log.Warn("service manager", zap.Error(err))
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
