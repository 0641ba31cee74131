package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

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

func (c *cli) run(ctx context.Context) error {
	cfg, report, err := c.load()
	if err != nil {
		return err
	}
	log, closeLog, err := openLog(cfg.Logging, cfg.LogFile(report.Home), c.errs, report.Secrets)
	if err != nil {
		return err
	}
	defer func() { _ = closeLog() }() // every line was written when it was logged
	ctx, stop := c.untilSignal(ctx, stopping(cfg), func() { c.recheck(log) })
	defer stop()
	if report.File == "" {
		c.note("%s does not exist; the defaults hold (`hermesd config example` prints one)", report.Missing)
	}
	a, err := app.New(ctx, app.Options{
		Config: cfg, Report: report, Home: report.Home, Version: version, Log: log,
		Say: func(line string) { _, _ = fmt.Fprintln(c.out, line) }, // a daemon does not end because nobody reads this
	})
	if err != nil {
		return err
	}
	return c.serve(ctx, a)
}

// serve runs a until ctx ends.
func (c *cli) serve(ctx context.Context, a *app.App) error {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		select {
		case <-a.Ready():
			_, _ = fmt.Fprintln(c.out, "✅ hermesd "+version+" is running; `hermesd status` shows its state")
		case <-done:
		}
	})
	err := a.Run(ctx)
	close(done)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("left behind: %w; it is taken up at the next start", err)
	}
	return nil
}

// recheck reads the configuration again and says what became of it.
func (c *cli) recheck(log *zap.Logger) {
	if _, _, err := c.load(); err != nil {
		log.Error("the configuration has errors; the one in effect stays", zap.Error(err))
		return
	}
	log.Info("the configuration is valid; it takes effect at the next start")
}

// stopping is what a first signal is answered with.
func stopping(cfg *config.Config) string {
	return fmt.Sprintf("stopping; turns that run may finish for %s, a second signal stops at once", cfg.Gateway.DrainTimeout)
}

// untilSignal returns a context that ends with the first signal, which is
// answered with note; the second ends the process. A hangup calls hup, if it is
// given. stop ends the watch.
func (c *cli) untilSignal(ctx context.Context, note string, hup func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
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
				c.note("stopped at once; what was under way is taken up at the next start")
				c.exit(exitFailed)
				return
			default:
				if note != "" {
					c.note("%s", note)
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
