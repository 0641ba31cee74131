package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
)

func (c *cli) runCmd() *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Run the daemon, in the foreground", Args: args(0, 0),
		Long: `Run the daemon, in the foreground.

With nothing configured it still works: ` + "`hermesd chat`" + ` reaches the built-in demo
model. SIGTERM and Ctrl-C let running turns finish first, for
gateway.drain_timeout; a second one stops at once, and what was under way is
taken up again at the next start.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
}

func (c *cli) run(ctx context.Context) (err error) {
	cfg, report, err := c.load()
	if err != nil {
		return err
	}
	log, level, closeLog, err := openLog(cfg.Logging, cfg.LogFile(report.Home), c.errs, report.Secrets)
	if err != nil {
		return err
	}
	defer func() { _ = closeLog() }() // every line is written already
	if err := c.resume(report.Home); err != nil {
		return err
	}
	release, err := c.adoptOrphans()
	if err != nil {
		return err
	}
	defer release()
	var live atomic.Pointer[app.App]
	ctx, stop := c.untilSignal(ctx, stopping(cfg), func() {
		if a := live.Load(); a != nil {
			a.Reload(ctx)
		}
	})
	defer stop()
	if report.File == "" {
		c.printNote("%s does not exist; the defaults hold (`hermesd setup` writes one)", report.Missing)
	}
	b := c.begin(ctx, report.Home)
	defer func() { b.ended(err) }()
	if ctx.Err() != nil { // stopped while it waited
		return nil
	}
	var wait time.Duration
	if v, _ := c.env(restartedEnv); v != "" {
		wait = restartLimit
	}
	var a *app.App
	err = untilFree(ctx, wait, func() (again bool, err error) {
		a, err = app.New(ctx, app.Options{
			Config: cfg, Report: report, Home: report.Home, CanRestart: true, Version: version, Log: log,
			Load: c.reload, Level: func(s string) { _ = level.UnmarshalText([]byte(s)) }, // it is checked when it is read
			Say: func(line string) { _, _ = fmt.Fprintln(c.out, line) }, // the daemon continues if this cannot be written
		})
		return true, err
	})
	if err != nil {
		return err
	}
	live.Store(a)
	err = c.serve(ctx, a, b.ready)
	if errors.Is(err, app.ErrRestart) {
		return c.restart()
	}
	return err
}

func (c *cli) adoptOrphans() (stop func(), err error) {
	if c.adopt == nil {
		return func() {}, nil
	}
	return c.adopt()
}

// restartedEnv is set in the environment of a daemon that has replaced itself.
const restartedEnv = "HERMESD_RESTARTED"

// restart restarts the daemon: under a service manager by the exit code, otherwise
// by replacing the process.
func (c *cli) restart() error {
	for _, name := range []string{"INVOCATION_ID", "NOTIFY_SOCKET"} {
		if v, _ := c.env(name); v != "" {
			return &exitError{exitRestart}
		}
	}
	if err := reexec(); err != nil {
		c.printNote("cannot start again by myself: %v", err)
	}
	return &exitError{exitRestart}
}

// serve runs a until ctx ends. It calls ready when messages are accepted.
func (c *cli) serve(ctx context.Context, a *app.App, ready func()) error {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		select {
		case <-a.Ready():
			ready()
			_, _ = fmt.Fprintln(c.out, "✅ hermesd "+version+" is running; `hermesd status` shows its state")
		case <-done:
		}
	})
	err := a.Run(ctx)
	close(done)
	wg.Wait()
	if errors.Is(err, app.ErrRestart) {
		return err
	}
	if err != nil {
		return fmt.Errorf("work left for the next start: %w", err)
	}
	return nil
}

// stopping returns the note that is printed at the first signal.
func stopping(cfg *config.Config) string {
	return fmt.Sprintf("stopping; turns that run may finish for %s, a second signal stops at once", cfg.Gateway.DrainTimeout)
}

// watchSignals delivers signals to c.signals, from which the caller must receive. Until then
// they end the process, also while it waits for input.
func (c *cli) watchSignals() {
	if c.watch != nil {
		c.watch()
	}
}

// untilSignal returns a context that is canceled at the first signal, when note is
// printed; a second signal ends the process. SIGHUP calls hup, unless it is nil.
// stop ends the handling of signals.
func (c *cli) untilSignal(ctx context.Context, note string, hup func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.watchSignals()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // stop waits for it
		for stopping := false; ; {
			var s os.Signal
			select {
			case <-quit:
				return
			case s = <-c.signals:
			}
			switch {
			case s == syscall.SIGHUP && hup != nil:
				hup()
			case stopping:
				c.printNote("stopped at once; what was under way is taken up at the next start")
				c.exit(exitFailed)
				return
			default:
				if note != "" {
					c.printNote("%s", note)
				}
				stopping = true
				cancel()
			}
		}
	})
	return ctx, func() {
		close(quit)
		wg.Wait()
		cancel()
	}
}
