// Package app builds the daemon from its parts, runs it, and stops the parts in
// reverse order. An [App] is built by [New] and run once by [App.Run]. The package
// decides nothing about messages: it connects configuration, storage, adapters,
// models, tools and the gateway.
package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/tools/terminal"
	"hermesd/agent/tools/web"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/erase"
	"hermesd/gateway/i18n"
	"hermesd/gateway/media"
	externalmemory "hermesd/gateway/memory"
	"hermesd/gateway/outbox"
	"hermesd/gateway/overlay"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/usage"
	"hermesd/internal/backoff"
	"hermesd/internal/spawn"
	"hermesd/storage"
	"hermesd/storage/bolt"
	"hermesd/storage/index"
	"hermesd/systemd"
)

// Options configures an [App]. Config, Report, Home, Log and Say are required, and without
// ConsoleOnly Load and Level.
type Options struct {
	Config *config.Config
	Report config.Report
	Home   string
	// ConsoleOnly builds no adapters except the local chat, and the configuration is read
	// only once.
	ConsoleOnly bool
	// WorkDir replaces terminal.cwd by the directory of the user at the terminal.
	// Nobody else may work there: only the local chat has turns, and scheduled prompts
	// wait. If it is empty, terminal.cwd applies.
	WorkDir string
	// CanRestart is set if users can request a restart. In any case the caller starts a
	// new App when Run returns ErrRestart.
	CanRestart bool
	// Load reads the configuration again. Level sets the lowest level that is logged.
	Load    func() (*config.Config, config.Report, error)
	Level   func(level string)
	Version string
	Log     *zap.Logger
	// Web has Dial and Timeout of the web tools, for tests.
	Web web.Options
	// Say prints one line about the start to the terminal.
	Say func(line string)
}

// An App is the daemon. Its exported methods may be called from any goroutine, Run
// only once.
type App struct {
	opts         Options
	onlyPlatform chat.Platform // the only platform that has turns; "" for all
	telemetry    telemetry
	active       active.Turns
	usage        *usage.Meter   // charges active
	cleanups     []func() error // what runCleanups calls, in reverse order

	// What follows is in the order in which build sets it: first what is opened.
	home          *storage.Home
	store         *bolt.Store
	pairing       *pairing.Manager
	migrations    *chatmigration.Registry
	access        accessGate
	lengths       *contextLengths
	memory        *externalmemory.Service
	memoryNotices memoryNotices
	printer       i18n.Printer // translates the texts that users read
	prompts       *promptInputs
	prefill       prefill
	sandbox       func() (*spawn.Sandbox, error) // waits until it is open
	cache         *media.Cache
	attachments   attachments

	outgoing pipeline.Outgoing

	// The agent and its tools.
	searchIndex   *index.Index
	eraser        *erase.Eraser
	indexFollower *index.Follower
	givesWay      spaceGiver
	commands      *terminal.Terminal // zero if commands are disabled
	engines       contextEngines
	engineHost    *plugin.Host // the external context engine; nil if the engine is built in
	models        *models
	agent         *agent.Agent

	console  *console.Adapter
	prefixes *prefixes
	overlay  *overlay.Builder
	pipeline *pipeline.Pipeline

	// What Run uses.
	ready       chan struct{}
	restart     chan struct{} // closed when a user requests a restart
	storeFailed chan struct{} // closed when the store must be opened again
	notifier    systemd.Notifier
	reload      reloader
	watchdog    watchdog
}

// New opens and locks the home directory and builds the daemon; Run starts it. Its
// errors are those of the packages config, storage and chat, from which the command
// line derives its exit code. If New fails, everything that it opened is closed
// again. The end of ctx does not interrupt New: Run stops the daemon.
func New(ctx context.Context, o Options) (*App, error) {
	startGCPacing()
	a := &App{opts: o, telemetry: newTelemetry(), ready: make(chan struct{}), restart: make(chan struct{}), storeFailed: make(chan struct{}), reload: reloader{lock: make(chan struct{}, 1)}}
	a.usage = usage.NewMeter(&a.active)
	a.opts.Log = a.telemetry.Log(o.Log)
	if o.WorkDir != "" {
		c := *o.Config
		c.Terminal.CWD, a.opts.Config, a.onlyPlatform = o.WorkDir, &c, chat.Console
	}
	var problems []config.Problem
	a.opts.Config, problems = Usable(a.opts.Config, o.Report, o.Home)
	for _, p := range problems {
		o.Say("⚠️ " + p.String())
	}
	if err := a.build(context.WithoutCancel(ctx)); err != nil {
		return nil, errors.Join(err, a.runCleanups())
	}
	return a, nil
}

// Ready returns a channel that is closed once the daemon accepts messages.
func (a *App) Ready() <-chan struct{} { return a.ready }

// runCleanups runs the cleanups in reverse order. It may be called more than once.
func (a *App) runCleanups() error {
	var errs error
	for len(a.cleanups) > 0 {
		last := a.cleanups[len(a.cleanups)-1]
		a.cleanups = a.cleanups[:len(a.cleanups)-1]
		errs = errors.Join(errs, last())
	}
	return errs
}

// ErrRestart is returned by Run after a user has requested a restart, and if the store
// must be opened again.
var ErrRestart = errors.New("app: restart")

// Run starts the daemon and runs it until ctx ends or a restart is necessary. Then it
// stops adapters, turns and deliveries, closes what New opened, and returns the errors
// of stopping, joined with ErrRestart.
func (a *App) Run(ctx context.Context) error {
	defer func() {
		if err := a.runCleanups(); err != nil {
			a.opts.Log.Error("cannot stop cleanly", zap.Error(err))
		}
	}()
	control, err := admin.Serve(a.opts.Home, a.adminHandler())
	if err != nil {
		return err
	}
	a.cleanups = append(a.cleanups, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return control.Close(ctx)
	})
	// If ctx ends during the start, the daemon is started and then stopped: messages may
	// have been accepted already.
	running := context.WithoutCancel(ctx)
	if err := a.pipeline.Start(running); err != nil {
		return err
	}
	adaptersCtx, stopAdapters := context.WithCancel(running)
	defer stopAdapters()
	var parts sync.WaitGroup // the goroutines of start
	a.start(adaptersCtx, &parts)
	close(a.ready)
	a.notify(a.notifier.Ready())
	var restartErr error
	select {
	case <-ctx.Done():
	case <-a.restart:
		restartErr = ErrRestart
	case <-a.storeFailed:
		restartErr = ErrRestart
		now, cancel := context.WithCancel(running)
		cancel() // turns cannot be committed: they run again after the restart, as after a crash
		running = now
	}
	a.notify(a.notifier.Stopping())
	// Adapters keep accepting while turns finish: accepted messages are on disk.
	err = a.pipeline.Stop(running)
	stopAdapters()
	parts.Wait()
	return errors.Join(restartErr, err)
}

// adminHandler returns what serves the requests of the command line.
func (a *App) adminHandler() *admin.Handler {
	return admin.NewHandler(admin.Options{
		Store: a.store, Upkeep: Maintenance(a.store, a.searchIndex), Keeper: a.store, Eraser: a.eraser, Search: Search(a.searchIndex),
		Approvals: a.pipeline.ApprovalManager(), Events: a.store, Memory: a.memory, Cron: a.outgoing.Cron.Manager(), Pairing: a.pairing, Tell: a.sendNotice,
		Prices: a.opts.Report.Prices, Home: a.opts.Home, Version: a.opts.Version, Masker: a.opts.Report.Secrets, Log: a.opts.Log.Named("control"),
		Daemon: admin.Daemon{
			Running: true, Status: a.status, Metrics: a.telemetry.metricsPage, Wake: a.outgoing.Delivery.Wake, Sender: sender{a.attachments, a.outgoing.Targets},
			Reload: a.Reload, Console: a.console, Commands: a.pipeline.Commands().All(),
		},
	})
}

// status returns the live state for the command line.
func (a *App) status() admin.Status {
	return admin.Status{Status: a.pipeline.Control().Status(), Workspace: a.prompts.workspace, Config: a.reload.current(), Sandbox: a.sandboxReport(), Toolset: a.prefixes.toolset()}
}

// releaseMemoryDelay is the time after which all parts have been used once, so that
// memory needed only by the start can be released.
const releaseMemoryDelay = 5 * time.Second

// start runs the adapters and the background tasks, each in a goroutine of parts.
func (a *App) start(ctx context.Context, parts *sync.WaitGroup) {
	for account, ad := range a.outgoing.Accounts.All() {
		parts.Go(func() {
			if err := ad.Run(ctx, a.pipeline); err != nil && ctx.Err() == nil {
				a.opts.Log.Error("cannot run platform", zap.String("platform", string(account.Platform)), zap.Error(err))
				a.opts.Say(fmt.Sprintf("❌ %v", err))
			}
		})
		if m, ok := ad.(chat.CommandPublisher); ok {
			parts.Go(func() { a.publishMenu(ctx, account, m) })
		}
	}
	if jobs, err := a.store.Jobs(ctx); err == nil && len(jobs) == 0 { // an error shows elsewhere
		if s := UnimportedJobs(a.opts.Home); s != "" {
			a.opts.Log.Warn(s)
		}
	}
	parts.Go(func() { a.indexFollower.Run(ctx) })
	parts.Go(func() { a.notify(a.notifier.Watchdog(ctx, a.checkAlive)) })
	parts.Go(func() { a.lengths.fetchReported(ctx, a.prefixes.reportToolset) })
	parts.Go(func() { a.watchConfig(ctx) })
	parts.Go(func() { a.runExpiry(ctx) })
	parts.Go(func() {
		if backoff.Sleep(ctx, releaseMemoryDelay) == nil {
			releaseMemory()
		}
	})
}

// publishMenu publishes the command menu of an account. It retries with increasing
// delays until the platform accepts the menu or reports a configuration error.
func (a *App) publishMenu(ctx context.Context, account chat.Account, m chat.CommandPublisher) {
	level := access.Member
	if platforms.Profiles().Of(account.Platform).FullMenu {
		level = access.Owner
	}
	for wait := 2 * time.Second; ; wait = min(2*wait, 10*time.Minute) {
		err := m.PublishCommands(ctx, command.Menu(a.pipeline.Commands().All(), level))
		var config *chat.ConfigError
		if err == nil || ctx.Err() != nil || errors.As(err, &config) {
			return
		}
		a.opts.Log.Warn("cannot publish command menu", zap.String("platform", string(account.Platform)), zap.Error(err))
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// notify logs the error of a notification to the service manager.
func (a *App) notify(err error) {
	if err != nil {
		a.opts.Log.Warn("cannot notify service manager", zap.Error(err))
	}
}

// isWaitingForTerminal reports whether a row has not been shown because no terminal
// was attached.
func isWaitingForTerminal(r outbox.Row) bool {
	return r.State == outbox.NotSent || r.State == outbox.Dead && strings.HasPrefix(r.Reason, console.NoTerminal)
}

// retryWaitingRows makes the rows that waited for a terminal at an address due.
func retryWaitingRows(to chat.Address, s *bolt.Store, d *delivery.Delivery, log *zap.Logger) {
	ctx := context.Background()
	rows, _, err := s.Outbox(ctx, outbox.Query{})
	if err != nil {
		log.Error("cannot list outbox", zap.Error(err))
		return
	}
	for _, r := range rows {
		if r.Msg.To == to && isWaitingForTerminal(r) {
			if err := s.RetryRow(ctx, r.ID); err != nil {
				log.Warn("cannot retry outbox row", zap.Stringer("row", r.ID), zap.Error(err))
			}
		}
	}
	d.Wake(to)
}
