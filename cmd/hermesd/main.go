// Command hermesd is a messaging gateway daemon: it keeps an AI agent reachable
// from Telegram, Discord, Slack, scheduled prompts and a local chat.
//
// Exit codes: 0 success; 1 failure; 2 wrong usage; 75 the service manager must
// restart the process; 78 configuration error, restarting does not help.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/config/profile"
	"hermesd/cmd/internal/platforms"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
	"hermesd/internal/spawn"
	"hermesd/storage"
)

// The exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRestart = 75
	exitConfig  = 78
)

func main() {
	os.Exit(run())
}

// run executes the command line and returns the exit code.
func run() int {
	signals := make(chan os.Signal, 2)
	watch := func() { signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) }
	defer signal.Stop(signals)
	c := &cli{in: os.Stdin, out: os.Stdout, errs: os.Stderr, env: os.LookupEnv, signals: signals, watch: watch, exit: os.Exit, adopt: spawn.AdoptOrphans}
	return c.execute(context.Background(), os.Args[1:])
}

// A cli is the state of one invocation of the command line.
type cli struct {
	in        io.Reader
	out, errs io.Writer
	env       func(string) (string, bool)
	signals   <-chan os.Signal
	watch     func()         // delivers signals from now on; until then they end the process. Nil: they are delivered already
	exit      func(code int) // ends the process at once, after a second signal
	// adopt is spawn.AdoptOrphans; nil if this process starts processes in other ways too.
	adopt func() (stop func(), err error)

	home, profile, file, level string // common flags
	json                       bool
}

// execute runs the command in args and returns the exit code.
func (c *cli) execute(ctx context.Context, args []string) int {
	root := c.root()
	root.SetArgs(args)
	began := time.Now()
	err := root.ExecuteContext(ctx)
	c.noteRootFiles(began.Add(-time.Second)) // times of files may be those of the last tick
	if err == nil {
		return 0
	}
	if _, silent := errors.AsType[*exitError](err); !silent {
		c.printErrors(err)
	}
	return code(err)
}

// printErrors prints err, one line per problem.
func (c *cli) printErrors(err error) {
	for l := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		_, _ = fmt.Fprintln(c.errs, "hermesd: "+l) // a failure cannot be reported anywhere
	}
	if _, damaged := errors.AsType[*storage.DamageError](err); damaged {
		_, _ = fmt.Fprintln(c.errs, "hermesd: `hermesd doctor --verify` says what is damaged; `hermesd restore` puts a backup in its place")
	}
}

// A usageError reports wrong usage of the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// An exitError ends a command that has already printed its error.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// code returns the exit code for err. No other function decides on exit codes.
func code(err error) int {
	var usage *usageError
	var quiet *exitError
	var conf *config.Error
	var platform *chat.ConfigError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &conf), errors.As(err, &platform):
		return exitConfig
	}
	return exitFailed
}

// root returns the command tree.
func (c *cli) root() *cobra.Command {
	var names []string
	for _, p := range platforms.All() {
		names = append(names, p.Name)
	}
	root := group(&cobra.Command{
		Use:   "hermesd",
		Short: "A messaging gateway daemon for an AI agent",
		Long: "hermesd keeps an AI agent reachable from " + strings.Join(names, ", ") + `,
scheduled prompts and a local chat, day and night.

  hermesd setup     set it up, with questions
  hermesd chat      talk to it here
  hermesd run       start the daemon`,
	})
	root.PersistentPreRunE = func(*cobra.Command, []string) (err error) {
		if c.profile == "" {
			return nil
		}
		if c.home, err = config.ResolveHome(c.home, c.env); err != nil {
			return err
		}
		if c.home, err = profile.Home(c.home, c.profile); err != nil {
			return &usageError{err.Error()}
		}
		return nil
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetHelpCommand(helpCmd())
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.errs)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err.Error() + "; `" + cmd.CommandPath() + " --help` lists the flags"}
	})
	f := root.PersistentFlags()
	f.StringVar(&c.home, "home", "", "home `directory` (else $HERMES_HOME, else ~/.hermes)")
	f.StringVar(&c.profile, "profile", "", "`name` of a home below that directory, with settings, conversations and a daemon of its own")
	f.StringVar(&c.file, "config", "", "configuration `file` (else config.yaml in the home directory)")
	f.StringVar(&c.level, "log-level", "", "least important lines that are logged: debug, info, warn, error")
	f.BoolVar(&c.json, "json", false, "print JSON instead of tables")
	root.AddCommand(
		c.setupCmd(), c.runCmd(), c.chatCmd(), c.demoCmd(), c.configCmd(), c.statusCmd(), c.metricsCmd(), c.whyCmd(), c.sendCmd(), c.outboxCmd(), c.sessionsCmd(),
		c.promptCmd(), c.usageCmd(), c.memoryCmd(), c.skillsCmd(), c.cronCmd(), c.approvalsCmd(), c.pairingCmd(),
		c.serviceCmd(), c.backupCmd(), c.restoreCmd(), c.compactCmd(), c.doctorCmd(), c.sandboxCmd(), c.injectionCmd(), c.reloadCmd(),
		c.versionCmd(), c.completionCmd(), c.manCmd(),
	)
	return root
}

// group makes cmd a group of subcommands: alone it prints its help, and an unknown
// subcommand is a usage error.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.SuggestionsMinimumDistance = cobra.ArbitraryArgs, 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		text := fmt.Sprintf("there is no command %q", cmd.CommandPath()+" "+args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return &usageError{text + "; `" + cmd.CommandPath() + " --help` lists them"}
	}
	return cmd
}

// args validates that a command has between least and most arguments.
func args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return &usageError{"something is missing: " + cmd.UseLine()}
		case n > most:
			return &usageError{fmt.Sprintf("%q is too much: %s", args[most], cmd.UseLine())}
		}
		return nil
	}
}

// load loads the configuration and prints its warnings.
func (c *cli) load() (*config.Config, config.Report, error) {
	cfg, report, err := c.reload()
	for _, w := range report.Warnings {
		c.printNote("warning: %s", w)
	}
	return cfg, report, err
}

// reload loads the configuration without printing warnings.
func (c *cli) reload() (*config.Config, config.Report, error) {
	flags := map[string]string{}
	if c.level != "" {
		flags["logging.level"] = c.level
	}
	return config.Load(config.Options{Home: c.home, File: c.file, Env: c.env, Flags: flags})
}

// printNote prints a note to standard error.
func (c *cli) printNote(format string, args ...any) {
	_, _ = fmt.Fprintf(c.errs, "hermesd: "+format+"\n", args...) // a failure cannot be reported anywhere
}

// print writes s to the output.
func (c *cli) print(s string) error {
	if _, err := fmt.Fprint(c.out, s); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// show prints v as JSON with --json, else the result of text.
func (c *cli) show(v any, text func() string) error {
	if !c.json {
		return c.print(text())
	}
	enc := json.NewEncoder(c.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// A sheet is text of lines with a name, padded to a width, and a value.
type sheet struct {
	strings.Builder
	width int
}

func (s *sheet) line(name, format string, args ...any) {
	fmt.Fprintf(s, "%-*s %s\n", s.width, name, text.Line(fmt.Sprintf(format, args...)))
}

// optional adds a line unless its value is "".
func (s *sheet) optional(name, value string) {
	if value != "" {
		s.line(name, "%s", value)
	}
}
