package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hermesd/agent/memory"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
)

// loadConfig loads the configuration of an existing home. Its warnings are printed
// only by `run` and `config check`.
func (c *cli) loadConfig() (*config.Config, string, error) {
	cfg, report, err := config.Load(config.Options{Home: c.home, File: c.file, Env: c.env})
	if err != nil {
		return nil, "", err
	}
	return cfg, report.Home, c.isHome(report.Home)
}

// isHome returns an error that says what to do if home does not exist.
func (c *cli) isHome(home string) error {
	dir, err := os.Stat(home)
	if err == nil && !dir.IsDir() {
		return fmt.Errorf("%s is not a directory; name one with --home", home)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; name another one with --home, or start with %s", home, c.next("run"))
	}
	return err
}

// A memoryOf selects one of the memory stores.
type memoryOf struct {
	target, platform, user string // flags
}

// open returns the selected store and the selected targets; all targets if none is
// named.
func (m memoryOf) open(c *cli) (s *memory.Store, targets []memory.Target, home string, err error) {
	cfg, home, err := c.loadConfig()
	if err != nil {
		return nil, nil, "", err
	}
	scope := cfg.Memory.Scope
	switch {
	case scope != "platform" && scope != "user" && m.platform+m.user != "":
		return nil, nil, "", &usageError{"all share one memory here (memory.scope: home); leave --platform and --user out"}
	case (scope == "platform" || scope == "user") && m.platform == "":
		return nil, nil, "", &usageError{"memory.scope is " + scope + "; say whose memory: --platform is missing"}
	case scope == "user" && m.user == "":
		return nil, nil, "", &usageError{"memory.scope is user; say whose memory: --user is missing"}
	}
	targets = []memory.Target{memory.Notes, memory.User}
	if m.target != "" {
		t, err := memory.ParseTarget(m.target)
		if err != nil {
			return nil, nil, "", &usageError{err.Error()}
		}
		targets = []memory.Target{t}
	}
	return app.Memories(cfg, home, chat.Platform(m.platform), m.user), targets, home, nil
}

func (c *cli) memoryCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "memory", Short: "Show and change what the agent remembers"})
	cmd.Long = `Show and change what the agent remembers: its own notes (memory, MEMORY.md) and
what it knows of you (user, USER.md), and the external memory provider. A daemon may
run meanwhile.`
	var m memoryOf
	show := &cobra.Command{
		Use: "show", Short: "Show the entries of the stores, and how full they are", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error { return c.memoryShow(m) },
	}
	change := func(use, short string, do memoryOp) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: args(1, 1),
			RunE: func(cmd *cobra.Command, args []string) error { return c.memoryChange(cmd.Context(), m, do, args[0]) },
		}
	}
	imp := &cobra.Command{
		Use: "import", Short: "Take over MEMORY.md and USER.md that lie directly in the home", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.memoryImport(cmd.Context(), m) },
	}
	cmd.AddCommand(show, change("add TEXT", "Add an entry", (*memory.Store).Add),
		change("remove TEXT", "Remove the one entry that holds TEXT", (*memory.Store).Remove), imp)
	for _, sub := range cmd.Commands() {
		m.flags(sub)
	}
	cmd.AddCommand(c.memoryProviderCmds()...)
	return cmd
}

// flags adds the flags that select a store to a command.
func (m *memoryOf) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.target, "target", "", "`store`: memory or user (show and import: both; add and remove: memory)")
	f.StringVar(&m.platform, "platform", "", "whose memory, where memory.scope is platform or user")
	f.StringVar(&m.user, "user", "", "whose memory, where memory.scope is user: the id of the `user`")
}

// remembered is the output for one target.
type remembered struct {
	Target  memory.Target `json:"target"`
	File    string        `json:"file"`
	Usage   string        `json:"usage"`
	Entries []string      `json:"entries"`
	// Blocked maps the entries that are excluded from prompts to the findings of
	// the injection scan.
	Blocked map[string]string `json:"blocked,omitempty"`
}

func (c *cli) memoryShow(m memoryOf) error {
	s, targets, home, err := m.open(c)
	if err != nil {
		return err
	}
	var all []remembered
	for _, t := range targets {
		entries, err := s.Entries(t)
		if err != nil {
			return err
		}
		r := remembered{Target: t, File: s.Path(t), Usage: s.Usage(t, entries), Entries: append([]string{}, entries...), Blocked: map[string]string{}}
		_, blocked, err := s.Snapshot(t)
		if err != nil {
			return err
		}
		for _, b := range blocked {
			r.Blocked[b.Entry] = b.IDs
		}
		all = append(all, r)
	}
	for _, stray := range s.MisplacedFiles(home) {
		c.printNote("%s", stray)
	}
	return c.show(all, func() string {
		var b strings.Builder
		for i, r := range all {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(memoryText(r))
		}
		return b.String()
	})
}

func memoryText(r remembered) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s\n", r.Target, r.Usage, text.Line(r.File))
	if len(r.Entries) == 0 {
		b.WriteString("    nothing yet\n")
	}
	for i, e := range r.Entries {
		note := ""
		if ids := r.Blocked[e]; ids != "" {
			note = " LEFT OUT of prompts, it looks like an attack (" + ids + "); remove it with `hermesd memory remove`:"
		}
		fmt.Fprintf(&b, "%d%s\n%s", i+1, note, indent(text.Clean(e)))
	}
	return b.String()
}

// A memoryOp changes a store.
type memoryOp func(s *memory.Store, ctx context.Context, t memory.Target, text string) memory.Result

func (c *cli) memoryChange(ctx context.Context, m memoryOf, do memoryOp, what string) error {
	s, targets, _, err := m.open(c)
	if err != nil {
		return err
	}
	res := do(s, ctx, targets[0], what) // the agent's notes if no target is named
	if res.Success {
		return c.show(res, func() string {
			return fmt.Sprintf("%s %s: %s. Conversations that are under way go on with what they began with, until /new or /reload.\n",
				res.Message, res.Target.File(), res.Usage)
		})
	}
	var b strings.Builder
	b.WriteString(res.Error)
	if res.DriftBackup != "" {
		b.WriteString(" A copy is at " + res.DriftBackup + ".")
	}
	entries := res.CurrentEntries
	if len(res.Matches) > 0 {
		entries = res.Matches
	}
	for _, e := range entries {
		b.WriteString("\n  " + text.Cut(e, 100))
	}
	return errors.New(text.Clean(b.String()))
}

// imported is the output for one imported file.
type imported struct {
	From    string `json:"from"`
	Into    string `json:"into"`
	Entries int    `json:"entries"`
}

func (c *cli) memoryImport(ctx context.Context, m memoryOf) error {
	s, targets, home, err := m.open(c)
	if err != nil {
		return err
	}
	done := []imported{}
	var failed []error
	for _, stray := range s.MisplacedFiles(home) {
		if !slices.Contains(targets, stray.Target) {
			continue
		}
		n, err := s.Import(ctx, stray)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		done = append(done, imported{stray.Path, stray.Into, n})
	}
	err = c.show(done, func() string {
		if len(done)+len(failed) == 0 {
			return "There is nothing to take over: no memory file lies in " + text.Line(home) + " itself whose store is still empty.\n"
		}
		var b strings.Builder
		for _, d := range done {
			fmt.Fprintf(&b, text.Form(d.Entries, "%d entry of %s is", "%d entries of %s are")+" now in %s; the old file stays where it is.\n", d.Entries, text.Line(d.From), text.Line(d.Into))
		}
		return b.String()
	})
	return errors.Join(append(failed, err)...)
}
