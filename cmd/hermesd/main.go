// Command hermesd is a messaging gateway daemon: it keeps an AI agent reachable
// from Telegram, Discord, Slack, scheduled prompts and a local chat.
//
// Exit codes: 0 success; 1 failure; 2 wrong usage; 75 the service manager must
// restart the process; 78 configuration error, restarting does not help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"hermesd/cmd/internal/config"
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
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	c := &cli{in: os.Stdin, out: os.Stdout, errs: os.Stderr, env: os.LookupEnv, signals: signals, exit: os.Exit, adopt: spawn.AdoptOrphans}
	return c.execute(context.Background(), os.Args[1:])
}

// A cli is the state of one invocation of the command line.
type cli struct {
	in        io.Reader
	out, errs io.Writer
	env       func(string) (string, bool)
	signals   <-chan os.Signal
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
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var silent *exitError
	if !errors.As(err, &silent) {
		c.printErrors(err)
	}
	return code(err)
}

// printErrors prints err, one line per problem.
func (c *cli) printErrors(err error) {
	for l := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		_, _ = fmt.Fprintln(c.errs, "hermesd: "+l) // a failure cannot be reported anywhere
	}
	var damage *storage.DamageError
	if errors.As(err, &damage) {
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
