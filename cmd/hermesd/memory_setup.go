package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/setup"
	"hermesd/cmd/internal/setup/termform"
	"hermesd/cmd/internal/tui/text"
)

// A providerTrial is the output of `memory setup`.
type providerTrial struct {
	Provider string   `json:"provider"`
	Place    string   `json:"place,omitempty"`
	Took     int64    `json:"took_ms"`
	Recall   int64    `json:"recall_ms"`
	Version  string   `json:"version,omitempty"`
	Detail   string   `json:"detail,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Error    string   `json:"error,omitempty"`
	Written  bool     `json:"written"`
	// Daemon says whether a daemon uses it: reloaded, restart (it has to), failed (it could
	// not reload) or none (there is no daemon).
	Daemon string `json:"daemon"`
}

// A providerSetup is what `memory setup` is told by flags.
type providerSetup struct {
	setup.MemoryFlags

	force bool
}

// holographic is the provider whose turns store nothing unless it is told to.
const holographic = "holographic"

func (c *cli) memorySetupCmd() *cobra.Command {
	var s providerSetup
	var read func() error
	cmd := &cobra.Command{
		Use: "setup [NAME]", Short: "Try a memory provider and set it as memory.provider; without NAME it asks", Args: args(0, 1),
		Long: `Try a memory provider and set it as memory.provider. Without NAME it asks in the
terminal for the provider and what it needs, like ` + "`hermesd setup`" + `; with NAME
it asks nothing and takes what the flags say. A provider that does not answer is set only
if you insist.

  hermesd memory setup
  hermesd memory setup holographic
  hermesd memory setup hindsight --url http://localhost:8888
  pass show mem0 | hermesd memory setup mem0 --api-key-file /dev/stdin

A key is given by the name of a variable or a file, never as a value: what stands on a
command line is seen by every user of the machine, and kept by the shell.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 0 {
				return c.askMemory(cmd)
			}
			s.Provider = names[0]
			if err := read(); err != nil {
				return err
			}
			return c.memorySetup(cmd.Context(), s)
		},
	}
	cmd.Flags().BoolVar(&s.force, "force", false, "set it although it does not answer")
	read = memoryFlags(cmd.Flags(), "", &s.MemoryFlags)
	s.OwnerIDs = ownerFlags(cmd.Flags())
	return cmd
}

// memoryFlags adds the flags for a memory provider, whose names begin with prefix. The
// function completes what they say, once m.Provider is known.
func memoryFlags(f *pflag.FlagSet, prefix string, m *setup.MemoryFlags) (read func() error) {
	var noMirror, extract bool
	var url string
	f.StringVar(&url, prefix+"url", "", "`address` of a server of your own; empty: the provider's cloud; left out: as it is")
	f.StringVar(&m.KeyVariable, prefix+"api-key-env", "", "`name` of the variable that holds its key")
	f.StringVar(&m.KeyFile, prefix+"api-key-file", "", "`file` that holds its key")
	f.StringVar(&m.People, prefix+"people", "", "whose words it gets: owners, members or everyone (memory.people)")
	f.BoolVar(&noMirror, prefix+"no-mirror", false, "do not tell it the entries of the built-in memory (memory.mirror)")
	f.BoolVar(&extract, prefix+"auto-extract", false, "holographic: also store what messages state (plugins.hermes-memory-store.auto_extract)")
	return func() error {
		switch {
		case !slices.Contains([]string{"", "owners", "members", "everyone"}, m.People):
			return &usageError{fmt.Sprintf("--%speople is owners, members or everyone, not %q", prefix, m.People)}
		case extract && m.Provider != holographic:
			return &usageError{"--" + prefix + "auto-extract is for " + holographic}
		}
		if noMirror {
			m.Mirror = new(bool)
		}
		if extract {
			m.AutoExtract = &extract
		}
		if f.Changed(prefix + "url") {
			m.URL = &url
		}
		return nil
	}
}

// askMemory asks for the external memory in the terminal.
func (c *cli) askMemory(cmd *cobra.Command) error {
	if given := ownFlags(cmd); len(given) > 0 {
		return &usageError{strings.Join(given, ", ") + " belongs to a NAME; without it `hermesd memory setup` asks for everything"}
	}
	if !(isTerminal(c.in) && isTerminal(c.out)) {
		return &usageError{"name a provider: " + strings.Join(app.MemoryProviders(), ", ") + `
holographic needs no account: its facts are in a file of the home, and it finds words, not
meanings. openviking and hindsight run as servers of your own. In a terminal
it asks for what each needs; docs/memory-providers.md says where each reads its key and address`}
	}
	ctx, stop := c.untilSignal(cmd.Context(), "", nil)
	defer stop()
	s, err := c.setupState()
	if err != nil {
		return err
	}
	p, err := setup.InterviewMemory(ctx, s, &termform.Asker{In: c.in, Out: c.out, Environ: os.Environ()})
	if errors.Is(err, setup.ErrAborted) {
		c.printNote("%v", err)
		return &exitError{exitFailed}
	}
	if err != nil || p == nil {
		return err
	}
	if err := p.Write(); err != nil {
		return err
	}
	state, daemon := c.reloadMemory(ctx, s.Home)
	return c.show(p, func() string {
		done := c.setUp(p, setupFlags{}, state != noDaemon)
		if state != noDaemon {
			done += daemon + "\n"
		}
		return done
	})
}

// noDaemon is providerTrial.Daemon if none runs.
const noDaemon = "none"

// reloadMemory has a daemon that runs use the external memory that is configured now. state
// is providerTrial.Daemon, and said is that in words.
func (c *cli) reloadMemory(ctx context.Context, home string) (state, said string) {
	client, err := admin.Dial(ctx, home)
	if errors.Is(err, admin.ErrNoDaemon) {
		return noDaemon, "It is used from the next start of the daemon on."
	}
	var done admin.Config
	if err == nil {
		defer func() { _ = client.Close(ctx) }() // what it was asked is done
		done, err = client.Reload(ctx)
	}
	if err == nil && done.Problem != "" {
		err = errors.New(done.Problem)
	}
	switch {
	case err != nil:
		return "failed", "The daemon goes on as before: " + text.Line(err.Error())
	case slices.Contains(done.PendingRestart, "memory.provider"):
		return "restart", "Restart the daemon; it is used in conversations that begin then."
	}
	return "reloaded", "The daemon has reloaded and uses it now. Conversations keep the text and the tools that they began with."
}

// setupState returns the state of the home for a setup.
func (c *cli) setupState() (*setup.State, error) {
	return setup.Load(setup.Options{Home: c.home, File: c.file, Env: c.env, OpenMemory: app.OpenMemoryProvider})
}

func (c *cli) memorySetup(ctx context.Context, f providerSetup) error {
	s, err := c.setupState()
	if err != nil {
		return err
	}
	if s.Recovered != "" {
		c.printNote("%s", s.Recovered)
	}
	m, err := s.FromMemoryFlags(f.MemoryFlags)
	if err != nil {
		return err
	}
	trial, usable, err := s.TryMemory(ctx, m)
	if !usable {
		return err
	}
	t := providerTrial{Provider: m.Provider, Place: trial.Place, Took: trial.Check.Milliseconds(), Recall: trial.Recall.Milliseconds(), Version: trial.Health.Version, Detail: trial.Health.Detail, Warnings: trial.Warnings}
	if err != nil {
		t.Error = err.Error()
		if !f.force {
			return fmt.Errorf("%w; nothing was changed (--force sets it all the same)", err)
		}
	}
	p, err := s.Plan(setup.Answers{Memory: &m})
	if err == nil {
		err = p.Write()
	}
	if err != nil {
		return err
	}
	t.Written = true
	var daemon string
	t.Daemon, daemon = c.reloadMemory(ctx, s.Home)
	return c.show(t, func() string {
		return text.Clean(memorySetText(s, m, trial, t.Error) + daemon + "\n" + p.NotesText())
	})
}

// memorySetText says that a provider is set.
func memorySetText(s *setup.State, m setup.Memory, trial setup.Trial, problem string) string {
	var b strings.Builder
	for _, w := range trial.Warnings {
		b.WriteString("warning: " + text.Line(w) + "\n")
	}
	if problem != "" {
		fmt.Fprintf(&b, "%s does not answer: %s\n", m.Provider, text.Line(problem))
	} else {
		fmt.Fprintf(&b, "%s %s.\n", m.Provider, text.Line(trial.Text()))
	}
	if m.Provider == holographic && m.AutoExtract == nil && !s.Config.Plugins.Holographic.AutoExtract {
		b.WriteString("auto_extract is off: only its tools and the built-in memory store facts. --auto-extract also stores what messages state, by English patterns.\n")
	}
	b.WriteString(s.OwnersText(setup.Answers{Memory: &m}, trial.PerID) + "\n")
	b.WriteString("memory.provider is " + m.Provider + ".\n")
	return b.String()
}
