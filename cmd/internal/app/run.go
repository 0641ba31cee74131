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
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/outbox"
)

// ErrRestart is returned by Run after a user has requested a restart, and if the store
// must be opened again.
var ErrRestart = errors.New("app: restart")

// requestRestart makes Run stop and return ErrRestart.
func (a *App) requestRestart() { a.restartOnce.Do(func() { close(a.restart) }) }

// Run starts the daemon and runs it until ctx ends or a restart is necessary. Then it
// stops adapters, turns and deliveries, closes what New opened, and returns the errors
// of stopping, joined with ErrRestart.
func (a *App) Run(ctx context.Context) error {
	defer func() {
		if err := a.runCleanups(); err != nil {
			a.opts.Log.Error("cannot stop cleanly", zap.Error(err))
		}
	}()
	control, err := admin.Serve(a.opts.Home, admin.NewHandler(admin.Options{
		Store: a.store, Upkeep: Maintenance(a.store, a.searchIndex), Config: a.configState, Reload: a.Reload, Keeper: a.store, Eraser: a.eraser(), Search: a.messageSearch(), Status: a.pipeline.Control().Status, Metrics: a.telemetry.metricsPage, Wake: a.delivery.Wake, Commands: a.pipeline.Commands().All(),
		Approvals: a.pipeline.ApprovalManager(), Cron: a.cron.Manager(), CronStatus: a.cron.Status, Pairing: a.pairing, Tell: a.sendNotice, Sender: sender{a}, Console: a.console, Prices: a.opts.Report.Prices, Home: a.opts.Home, Workspace: a.prompts.workspace, Sandbox: a.sandboxReport, Toolset: a.toolsetReport, Version: a.opts.Version, Masker: a.opts.Report.Secrets, Log: a.opts.Log.Named("control"),
	}))
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
	defer time.AfterFunc(releaseMemoryDelay, releaseMemory).Stop()
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

// releaseMemoryDelay is the time after which all parts have been used once, so that
// memory needed only by the start can be released.
const releaseMemoryDelay = 5 * time.Second

// start runs the adapters and the background tasks, each in a goroutine of parts.
func (a *App) start(ctx context.Context, parts *sync.WaitGroup) {
	for account, ad := range a.accounts.All() {
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
	if a.indexFollower != nil {
		parts.Go(func() { a.indexFollower.Run(ctx) })
	}
	parts.Go(func() { a.notify(a.notifier.Watchdog(ctx, a.checkAlive)) })
	parts.Go(func() { a.lengths.fetchReported(ctx) })
	parts.Go(func() { a.watchConfig(ctx) })
	parts.Go(func() { a.runExpiry(ctx) })
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
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
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
func (a *App) retryWaitingRows(to chat.Address) {
	ctx := context.Background()
	rows, err := a.store.Outbox(ctx, false)
	if err != nil {
		a.opts.Log.Error("cannot list outbox", zap.Error(err))
		return
	}
	for _, r := range rows {
		if r.Msg.To == to && isWaitingForTerminal(r) {
			if err := a.store.RetryRow(ctx, r.ID); err != nil {
				a.opts.Log.Warn("cannot retry outbox row", zap.Stringer("row", r.ID), zap.Error(err))
			}
		}
	}
	a.delivery.Wake(to)
}
