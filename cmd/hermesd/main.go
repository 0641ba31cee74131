// Command hermesd is a messaging gateway daemon: it keeps an AI agent reachable
// from Telegram, Discord, Slack, scheduled prompts and a local chat.
//
// Exit codes: 0 done; 1 failed; 2 wrong usage; 75 please restart me;
// 78 configuration error, do not restart.
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
)

// The exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRestart = 75
	exitConfig  = 78
)

func main() {
	spawn.Main() // returns, unless this is the inside of a sandbox
	os.Exit(run())
}

// run is main, but for the exit.
func run() int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	c := &cli{in: os.Stdin, out: os.Stdout, errs: os.Stderr, env: os.LookupEnv, signals: signals, exit: os.Exit}
	return c.execute(context.Background(), os.Args[1:])
}

// A cli is one use of the command line.
type cli struct {
	in        io.Reader
	out, errs io.Writer
	env       func(string) (string, bool)
	signals   <-chan os.Signal
	exit      func(code int) // leaves at once, after a second signal

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

// printErrors prints err, one line for each thing that is wrong.
func (c *cli) printErrors(err error) {
	for l := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		_, _ = fmt.Fprintln(c.errs, "hermesd: "+l) // nobody is left to hear of an error here
	}
}

// A usageError is a command that is not one.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// A exitError ends a command that has said already what went wrong.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// code decides on the exit code: the only place that does.
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
