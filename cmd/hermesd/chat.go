package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/tui"
	"hermesd/cmd/internal/workdir"
)

func (c *cli) chatCmd() *cobra.Command {
	var question, conversation string
	cmd := &cobra.Command{
		Use: "chat", Short: "Talk to the agent in this terminal", Args: args(0, 0),
		Long: `Talk to the agent in this terminal: the same conversation whether a daemon runs
or not. Without a terminal each line of the input is a message.

Where no daemon runs, the agent works in the directory that this is started in,
as long as terminal.cwd names no other and it is not one that holds everything:
files, commands and project files (AGENTS.md and the like) are those of this
directory. A conversation keeps the project files that it began with; /reload
reads them again. The daemon works in its own directory.

  hermesd chat
  hermesd chat -q "What is the capital of France?"
  git diff | hermesd chat -q -

Enter sends; Alt+Enter or Ctrl-J begins a new line; Up and Down recall what was
typed; Tab completes a command; PgUp, PgDn and the wheel scroll, Esc goes to the
end; dragging with Shift selects text. Ctrl-C stops the turn that runs; Ctrl-C
twice, or Ctrl-D, quits.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asked := cmd.Flags().Changed("question")
			if asked && question == "-" {
				raw, err := io.ReadAll(io.LimitReader(c.in, 1<<20))
				if err != nil {
					return fmt.Errorf("read question: %w", err)
				}
				question = strings.ToValidUTF8(string(raw), "\uFFFD")
			}
			if asked && strings.TrimSpace(question) == "" {
				return &usageError{"the question is empty"}
			}
			return c.chat(cmd.Context(), conversation, question)
		},
	}
	cmd.Flags().StringVarP(&question, "question", "q", "", "ask this, print only the answer, and exit; - reads `text` from the input")
	cmd.Flags().StringVar(&conversation, "conversation", console.Default, "`name` of the conversation")
	return cmd
}

func (c *cli) chat(ctx context.Context, conversation, question string) error {
	home, err := config.ResolveHome(c.home, c.env)
	if err != nil {
		return err
	}
	full := question == "" && isTerminal(c.in) && isTerminal(c.out)
	o := tui.Options{In: c.in, Out: c.out, Errs: c.errs, Environ: os.Environ()}
	if full {
		o.History = filepath.Join(home, "cache", "chat_history")
	}
	load := sync.OnceValues(func() (loaded, error) { // the warnings are printed once
		cfg, report, err := c.load()
		return loaded{cfg, report}, err
	})
	return untilFree(ctx, holdLimit, func() (again bool, err error) {
		client, err := admin.Dial(ctx, home)
		if err == nil {
			if question == "" {
				o.Notice = c.beginning(ctx, client, "The daemon works in")
			}
			err = c.talk(ctx, c.attaching(home, conversation, client), o, question)
			return false, errors.Join(err, client.Close(ctx))
		}
		if !errors.Is(err, admin.ErrNoDaemon) {
			return false, err
		}
		l, err := load()
		if err != nil {
			return false, err
		}
		again = true
		err = c.chatAlone(ctx, l, func(ctx context.Context, home string) error {
			again = false
			client, err := admin.Dial(ctx, home)
			if err != nil {
				return err
			}
			o.Notice = alone + "\n" + c.beginning(ctx, client, "It works in")
			err = c.talk(ctx, c.attaching(home, conversation, client), o, question)
			return errors.Join(err, client.Close(ctx))
		})
		return again, err
	})
}

// loaded is the result of cli.load.
type loaded struct {
	cfg    *config.Config
	report config.Report
}

const alone = "No daemon is running: this terminal runs one of its own, for as long as it is open."

// beginning returns the first line of a conversation: the working directory of the
// agent and whether prompts are cached.
func (c *cli) beginning(ctx context.Context, client *admin.Client, words string) string {
	s, err := client.Status(ctx)
	if err != nil {
		return "" // the conversation reports it
	}
	if cwd, err := os.Getwd(); err == nil && workdir.SamePath(cwd, s.Workspace) {
		words += " this directory,"
	}
	return words + " " + s.Workspace + ".\n" + s.Caching
}

// attaching returns a function that attaches to a conversation. A restarted daemon
// has a new socket, so a client that fails is replaced.
func (c *cli) attaching(home, conversation string, client *admin.Client) func(context.Context, ...string) (tui.Chat, error) {
	return func(ctx context.Context, has ...string) (tui.Chat, error) {
		chat, err := client.Attach(ctx, conversation, has...)
		if err != nil {
			fresh, dialErr := admin.Dial(ctx, home)
			if dialErr != nil {
				return nil, dialErr
			}
			client = fresh
			if chat, err = client.Attach(ctx, conversation, has...); err != nil {
				return nil, err
			}
		}
		return chat, nil
	}
}

func (c *cli) talk(ctx context.Context, attach func(context.Context, ...string) (tui.Chat, error), o tui.Options, question string) error {
	ctx, stop := c.untilSignal(ctx, "", nil)
	defer stop()
	o.Attach = attach
	var err error
	switch {
	case question != "":
		err = tui.Once(ctx, o, question)
	case o.History != "":
		err = tui.Run(ctx, o)
	default:
		err = tui.Lines(ctx, o)
	}
	if errors.Is(err, tui.ErrUnanswered) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return &exitError{exitFailed} // the reason is printed already
	}
	return err
}

// chatAlone starts the gateway in this process, with the terminal as the only
// platform, and calls f when it is ready. Turns running when f returns may finish.
func (c *cli) chatAlone(ctx context.Context, l loaded, f func(ctx context.Context, home string) error) error {
	cfg, report := l.cfg, l.report
	file := cmp.Or(cfg.LogFile(report.Home), filepath.Join(report.Home, "logs", "chat.log")) // the terminal shows the conversation
	log, _, closeLog, err := openLog(cfg.Logging, file, c.errs, report.Secrets)
	if err != nil {
		return err
	}
	defer func() { _ = closeLog() }() // every line is written already
	release, err := c.adoptOrphans()
	if err != nil {
		return err
	}
	defer release()
	o := app.Options{Config: cfg, Report: report, Home: report.Home, ConsoleOnly: true, WorkDir: workdir.Current(cfg.Terminal.CWD, report.Home), Version: version, Log: log, Say: func(string) {}}
	a, err := app.New(ctx, o)
	if err != nil {
		return explainUnanswered(err)
	}
	running, cancel := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	talking, hangUp := context.WithCancel(ctx)
	defer hangUp()
	go func() { // waited for below
		ended <- runAgain(running, a, o)
		hangUp()
	}()
	select {
	case <-a.Ready():
		err = f(talking, report.Home)
	case err := <-ended:
		cancel(nil)
		return err
	}
	cancel(nil)
	watch, stop := c.untilSignal(ctx, stopping(cfg), nil)
	defer stop()
	slow := time.AfterFunc(waitTimeout, func() { c.printNote("the turn that runs may finish; Ctrl-C twice leaves it for the next start") })
	defer slow.Stop()
	select {
	case left := <-ended:
		return errors.Join(err, left)
	case <-watch.Done():
	}
	return errors.Join(err, <-ended)
}

// runAgain runs a, and after each restart a new daemon with the same options: the
// terminal attaches again by itself.
func runAgain(ctx context.Context, a *app.App, o app.Options) error {
	err := a.Run(ctx)
	for errors.Is(err, app.ErrRestart) && ctx.Err() == nil {
		if a, err = app.New(ctx, o); err == nil {
			err = a.Run(ctx)
		}
	}
	return err
}

// waitTimeout is how long quitting may take before a note is printed.
const waitTimeout = 500 * time.Millisecond

func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}
