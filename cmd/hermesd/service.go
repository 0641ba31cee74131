package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/config/profile"
	"hermesd/cmd/internal/service"
	"hermesd/cmd/internal/tui/text"
	"hermesd/internal/atomicfile"
	"hermesd/internal/backoff"
	"hermesd/storage"
	"hermesd/systemd"
)

// unit holds the flags that select the service.
type unit struct {
	system, user bool
	account      string
}

func (c *cli) serviceCmd() *cobra.Command {
	var u unit
	cmd := group(&cobra.Command{
		Use: "service", Short: "Install the daemon as a service of systemd, start and stop it",
		Long: `Install the daemon as a service of systemd, start and stop it.

The service is one of your own user, which runs without a login if lingering is
on; with --system, or for root, one of the machine, under an account of its own.`,
	})
	f := cmd.PersistentFlags()
	f.BoolVar(&u.system, "system", false, "the service of the machine (as root)")
	f.BoolVar(&u.user, "user", false, "the service of your own user")
	f.StringVar(&u.account, "account", service.DefaultAccount, "`account` of the service of the machine")
	cmd.AddCommand(c.serviceInstall(&u), c.serviceUninstall(&u), c.serviceStatus(&u), c.serviceLogs(&u))
	for _, verb := range []struct {
		name, short, done string
		do                func(*service.Service, context.Context) error
	}{
		{"start", "Start it, and wait until it is ready", "is running", (*service.Service).Start},
		{"stop", "Stop it; running turns may finish first", "is stopped", (*service.Service).Stop},
		{"restart", "Stop it and start it again", "is running", (*service.Service).Restart},
	} {
		cmd.AddCommand(c.onService(&u, verb.name, verb.short, func(ctx context.Context, s *service.Service) error {
			if err := verb.do(s, ctx); err != nil {
				return err
			}
			return c.print("The service " + verb.done + ".\n")
		}))
	}
	return cmd
}

// onService returns a command that calls do with the service that u selects.
func (c *cli) onService(u *unit, use, short string, do func(context.Context, *service.Service) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.service(*u)
			if err != nil {
				return err
			}
			return do(cmd.Context(), s)
		},
	}
}

// service returns the service that the flags select.
func (c *cli) service(u unit) (*service.Service, error) {
	if u.system && u.user {
		return nil, &usageError{"--system and --user exclude each other"}
	}
	mine := u.user || !u.system && os.Geteuid() != 0
	home, err := c.serviceHome(mine)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return service.New(service.Options{
		User: mine, Binary: self, Home: home, Profile: profile.FromHome(home), Account: u.account, Stop: c.drain(home) + stopMargin,
		Env: c.env, Verify: systemd.Verify,
	})
}

// stopMargin is the time that a daemon may take to stop in addition to its drain
// timeout, since the steps of stopping have limits of their own.
const stopMargin = 40 * time.Second

// serviceHome returns the home directory of the service. The default for a system
// service is not the home directory of root.
func (c *cli) serviceHome(mine bool) (string, error) {
	if v, _ := c.env("HERMES_HOME"); !mine && c.home == "" && v == "" {
		return service.SystemHome, nil
	}
	return config.ResolveHome(c.home, c.env)
}

// drain returns the drain timeout configured in home, or the default.
func (c *cli) drain(home string) time.Duration {
	cfg, _, err := config.Load(config.Options{Home: home, File: c.file, Env: c.env})
	if err != nil {
		return time.Minute
	}
	return cfg.Gateway.DrainTimeout
}

func (c *cli) serviceInstall(u *unit) *cobra.Command {
	var how service.InstallOptions
	var rest bool
	const short = "Write the unit file, switch the service on and start it; what this systemd cannot apply is left out and named"
	cmd := c.onService(u, "install", short, func(ctx context.Context, s *service.Service) error {
		how.Start = !rest
		r, err := s.Install(ctx, how)
		if r.Changed || err == nil {
			if perr := c.show(r, func() string { return installedText(r) }); perr != nil {
				return perr
			}
		}
		return err
	})
	cmd.Flags().BoolVar(&rest, "no-start", false, "do not start it now")
	cmd.Flags().BoolVar(&how.Force, "force", false, "replace a unit file that hermesd has not written")
	return cmd
}

func installedText(r service.Report) string {
	var b strings.Builder
	state := "was so already"
	if r.Changed {
		state = "is written"
	}
	fmt.Fprintf(&b, "The unit file %s %s.\n", r.Unit, state)
	if len(r.LeftOut) > 0 {
		fmt.Fprintf(&b, "Left out, for they cannot be applied here: %s.\n", strings.Join(r.LeftOut, ", "))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "Note: %s.\n", text.Line(n))
	}
	if r.Profile != "" {
		fmt.Fprintf(&b, "The AppArmor profile %s lets hermesd create user namespaces for the sandbox of commands.\n", r.Profile)
	}
	if r.AsRoot != "" {
		fmt.Fprintf(&b, "Run this as well:\n\n%s\n", r.AsRoot)
	}
	if r.Started {
		b.WriteString("The service is running; `hermesd service status` shows it.\n")
	}
	return b.String()
}

func (c *cli) serviceUninstall(u *unit) *cobra.Command {
	var force bool
	cmd := c.onService(u, "uninstall", "Stop the service, switch it off and remove the unit file; the home stays", func(ctx context.Context, s *service.Service) error {
		if err := s.Uninstall(ctx, force); err != nil {
			return err
		}
		return c.print("There is no service any more; the home is as it was.\n")
	})
	cmd.Flags().BoolVar(&force, "force", false, "also remove a unit file that hermesd has not written")
	return cmd
}

func (c *cli) serviceStatus(u *unit) *cobra.Command {
	return c.onService(u, "status", "Show what systemd says of the service, and what to do; fails if it does not run", func(ctx context.Context, s *service.Service) error {
		st, err := s.State(ctx)
		if err != nil {
			return err
		}
		if err := c.show(st, func() string { return serviceText(st) }); err != nil {
			return err
		}
		if !st.Running() {
			return &exitError{exitFailed}
		}
		return nil
	})
}

func serviceText(st service.State) string {
	b := sheet{width: 10}
	b.line("service", "%s (%s), %s", st.Active, st.Sub, st.Enabled)
	b.optional("unit file", st.Unit)
	if st.PID != 0 {
		b.line("process", "%d, since %s, restarted %s by systemd", st.PID, st.Since, text.Count(st.Restarts, "time"))
	} else {
		b.line("last run", "%s, exit code %d", st.Result, st.Exit)
	}
	b.optional("says", st.Status)
	b.optional("lingering", st.Lingering)
	b.optional("PROBLEM", st.Hint())
	return b.String()
}

func (c *cli) serviceLogs(u *unit) *cobra.Command {
	var lines int
	var follow bool
	cmd := c.onService(u, "logs", "Print the last lines of the service's journal", func(ctx context.Context, s *service.Service) error {
		ctx, stop := c.untilSignal(ctx, "", nil)
		defer stop()
		if cfg, report, err := config.Load(config.Options{Home: c.home, File: c.file, Env: c.env}); err == nil && cfg.Logging.File != "" {
			c.printNote("the log goes to %s; the journal has what was written outside of it", cfg.LogFile(report.Home))
		}
		return s.Logs(ctx, c.out, lines, follow)
	})
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new lines")
	return cmd
}

const (
	// startsFile is the file in the home directory with the times of starts that
	// did not become ready.
	startsFile = "hermesd.starts"
	// startsSpan is how long such a start counts; startsFree is the number of
	// them that are not delayed.
	startsSpan = 10 * time.Minute
	startsFree = 5
	// maxStartDelay is the maximum delay of a start.
	maxStartDelay = 5 * time.Minute
)

// startDelay returns the delay of the n-th consecutive start that did not become
// ready.
func startDelay(n int) time.Duration {
	if n <= startsFree {
		return 0
	}
	return min(maxStartDelay, 5*time.Second<<min(n-startsFree-1, 10))
}

// A startRecord records starts in a file. A start counts until it becomes ready or
// ends without an error.
type startRecord struct{ path string }

// begin records a start of the daemon of home and delays it if too many consecutive
// starts failed: the cause is temporary or needs an operator, and frequent attempts
// help in neither case. It returns early when ctx ends.
func (c *cli) begin(ctx context.Context, home string) startRecord {
	b := startRecord{filepath.Join(home, startsFile)}
	now := time.Now()
	times := append(b.read(now), now)
	b.write(times)
	d := startDelay(len(times))
	if d == 0 {
		return b
	}
	failed := text.Count(len(times)-1, "start")
	c.printNote("%s not become ready in %s; this one waits %s (`hermesd doctor` and the log say what is wrong)", failed+text.Form(len(times)-1, " has", " have"), startsSpan, d)
	var manager systemd.Notifier
	_ = manager.Extend(d + startLimit) // otherwise the service manager ends the wait, which does no harm
	_ = manager.Status(fmt.Sprintf("waits %s after %s that failed", d, failed))
	_ = backoff.Sleep(ctx, d) // returns early when ctx ends
	return b
}

// startLimit is the time limit for a start, as in the unit file.
const startLimit = 2 * time.Minute

// read returns the starts that count. It ignores an invalid file, and starts in the
// future, which exist after the clock was set back.
func (b startRecord) read(now time.Time) (times []time.Time) {
	raw, err := os.ReadFile(b.path)
	if err != nil {
		return nil
	}
	var all []time.Time
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for _, t := range all {
		if d := now.Sub(t); d >= 0 && d < startsSpan {
			times = append(times, t)
		}
	}
	return times
}

// write stores times. Errors are ignored: the start itself reports what is wrong
// with the home directory.
func (b startRecord) write(times []time.Time) {
	if raw, err := json.Marshal(times); err == nil {
		_ = atomicfile.Replace(b.path, raw, 0o600)
	}
}

// ready removes the records of all failed starts.
func (b startRecord) ready() { _ = os.Remove(b.path) } // the file may not exist

// ended removes the record of this start if it ended without an error, or did not
// happen because another daemon runs in the home directory.
func (b startRecord) ended(err error) {
	if _, locked := errors.AsType[*storage.LockedError](err); err != nil && !locked {
		return
	}
	if times := b.read(time.Now()); len(times) > 1 {
		b.write(times[:len(times)-1])
	} else {
		b.ready()
	}
}
