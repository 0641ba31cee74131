package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/cmd/internal/setup"
	"hermesd/cmd/internal/setup/termform"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
)

type setupFlags struct {
	setup.Flags
	alone, dry, verify, manifest bool
}

func (c *cli) setupCmd() *cobra.Command {
	w := setupFlags{Flags: setup.Flags{SecretFiles: map[string]*string{}}}
	var readMemory func() error
	cmd := &cobra.Command{
		Use: "setup", Short: "Set up the model, the platforms and the owner: asks, tries what it was told, writes config.yaml and .env", Args: args(0, 0),
		Long: `Set up the model, the platforms and the owner. It asks in the terminal, tries keys
and tokens if you like, shows what it would write, and writes config.yaml and .env
(mode 0600) once you agree. What is there stays; nothing that is set is replaced
without a question. It may be run again at any time.

  hermesd setup
  hermesd setup --non-interactive --provider anthropic --api-key-env ANTHROPIC_API_KEY \
      --telegram-token-file token.txt --telegram-owner 123456789 --memory-provider holographic

Secrets are given by the name of a variable or a file (/dev/stdin too), never as
values: what stands on a command line is seen by every user of the machine, and
kept by the shell.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if given := ownFlags(cmd, "dry-run", "slack-manifest"); !w.alone && len(given) > 0 {
				return &usageError{strings.Join(given, ", ") + " belongs to --non-interactive; without it `hermesd setup` asks for everything"}
			}
			if given := memoryFlagsOf(cmd); w.Memory.Provider == "" && len(given) > 0 {
				return &usageError{strings.Join(given, ", ") + " belongs to --memory-provider"}
			}
			if err := readMemory(); err != nil {
				return err
			}
			return c.setup(cmd.Context(), w)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&w.alone, "non-interactive", false, "ask nothing: take everything from the flags")
	f.BoolVar(&w.dry, "dry-run", false, "print what would be written, secrets masked, and write nothing")
	f.BoolVar(&w.verify, "verify-credentials", false, "without questions: try keys and tokens before anything is written")
	f.BoolVar(&w.Overwrite, "overwrite", false, "without questions: what is set already may be replaced")
	f.BoolVar(&w.manifest, "slack-manifest", false, "print the manifest from which a Slack app is made, and exit")
	f.StringVar(&w.Provider, "provider", "", "who serves the model: "+strings.Join(setup.Providers(), ", "))
	f.StringVar(&w.Model, "model", "", "its `name`; left out: the provider's usual one")
	f.StringVar(&w.BaseURL, "base-url", "", "`address` of its server; left out: the provider's own")
	f.StringVar(&w.KeyVariable, "api-key-env", "", "`name` of the variable that holds its key")
	f.StringVar(&w.KeyFile, "api-key-file", "", "`file` that holds its key")
	for _, p := range platforms.All() {
		for _, s := range p.Secrets {
			w.SecretFiles[setup.FlagOf(p.Platform, s)] = f.String(setup.FlagOf(p.Platform, s), "", "`file` that holds the "+setup.Noun(s))
		}
	}
	w.Owners = ownerFlags(f)
	f.StringVar(&w.Workspace, "workspace", "", "`directory` in which tools work; left out: workspace in the home")
	f.StringVar(&w.Memory.Provider, memoryPrefix+"provider", "", "external memory: "+strings.Join(setup.MemoryProviders(), ", ")+"; left out: as it is")
	readMemory = memoryFlags(f, memoryPrefix, &w.Memory)
	return cmd
}

// ownerFlags adds the flags for the owners on each platform.
func ownerFlags(f *pflag.FlagSet) map[chat.Platform]*[]string {
	owners := make(map[chat.Platform]*[]string)
	for _, p := range platforms.All() {
		owners[p.Platform] = f.StringSlice(setup.OwnerFlagOf(p.Platform), nil, "`id` of who may do everything; several with commas")
	}
	return owners
}

// memoryPrefix begins the names of the flags for the external memory.
const memoryPrefix = "memory-"

// memoryFlagsOf returns the flags for the external memory that are given.
func memoryFlagsOf(cmd *cobra.Command) []string {
	return slices.DeleteFunc(ownFlags(cmd), func(name string) bool { return !strings.HasPrefix(name, "--"+memoryPrefix) })
}

// ownFlags returns the flags of cmd that are given, other than those that every command
// has.
func ownFlags(cmd *cobra.Command, except ...string) (given []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if cmd.InheritedFlags().Lookup(f.Name) == nil && !slices.Contains(except, f.Name) {
			given = append(given, "--"+f.Name)
		}
	})
	return given
}

func (c *cli) setup(ctx context.Context, w setupFlags) error {
	if w.manifest {
		cfg, _, _ := config.Load(config.Options{Home: c.home, File: c.file, Env: c.env}) // only for the language; errors do not matter
		return c.print(setup.SlackManifest(cfg) + "\n")
	}
	if !w.alone && !(isTerminal(c.in) && isTerminal(c.out)) {
		return &usageError{"setup asks questions, and this is no terminal; give --non-interactive and the answers as flags (`hermesd setup --help` lists them)"}
	}
	ctx, stop := c.untilSignal(ctx, "", nil)
	defer stop()
	s, err := c.setupState()
	if err != nil {
		return err
	}
	p, err := c.planned(ctx, s, w)
	if err != nil || p == nil {
		return err
	}
	if !w.dry {
		if err := p.Write(); err != nil {
			return err
		}
	}
	return c.show(p, func() string { return c.setUp(p, w, runs(ctx, s.Home)) })
}

// runs reports whether a daemon runs for a home.
func runs(ctx context.Context, home string) bool {
	client, err := admin.Dial(ctx, home)
	if err == nil {
		_ = client.Close(ctx) // only its existence matters
	}
	return err == nil
}

// planned returns the changes to write; nil if there are none.
func (c *cli) planned(ctx context.Context, s *setup.State, w setupFlags) (*setup.Plan, error) {
	if !w.alone {
		p, err := setup.Interview(ctx, s, &termform.Asker{In: c.in, Out: c.out, Environ: os.Environ()})
		if errors.Is(err, setup.ErrAborted) {
			c.printNote("%v", err)
			return nil, &exitError{exitFailed}
		}
		return p, err
	}
	if s.Recovered != "" {
		c.printNote("%s", s.Recovered)
	}
	p, err := s.FromFlags(w.Flags)
	if err != nil || !w.verify {
		return p, err
	}
	said, err := p.Verify(ctx)
	for _, line := range said {
		c.printNote("%s", text.Line(line))
	}
	if err != nil {
		return nil, fmt.Errorf("%w; nothing is written", err)
	}
	return p, nil
}

// setUp returns the summary of the changes and the next steps.
func (c *cli) setUp(p *setup.Plan, w setupFlags, runs bool) string {
	switch {
	case w.dry:
		return text.Clean(p.Text()) + "Nothing was written (--dry-run).\n"
	case len(p.Changes) == 0:
		return "Everything stays as it is. Next: " + c.next("run") + ".\n"
	}
	head := "Written and valid.\n"
	if w.alone {
		head = text.Clean(p.Text()) + head
	}
	head += c.noTerminal()
	if runs {
		return head + "A daemon runs: " + c.next("status") + " says what it has taken up, and what waits for its restart.\n"
	}
	return head + "Next: " + c.next("run") + " starts the daemon, " + c.next("service install") + " keeps it running, " + c.next("doctor --online") + " looks whether all is well.\n"
}

// noTerminal says that the agent has no terminal, if no sandbox works; else it returns
// "".
func (c *cli) noTerminal() string {
	cfg, report, err := c.reload()
	if err != nil {
		return "" // what was written is valid; something else has changed it since
	}
	if s := app.CheckSandbox(context.Background(), cfg, report, report.Home); s.Error == "" {
		return ""
	}
	return "No sandbox for commands works here: the agent has no terminal until one does, or until you write `terminal: {sandbox: off}`. " + c.next("sandbox") + " tells why.\n"
}

// next returns a command line for this home directory.
func (c *cli) next(command string) string {
	home := ""
	if c.home != "" {
		home = " --home " + shellWord(c.home)
	}
	return "`hermesd " + command + home + "`"
}

// shellWord returns s as a shell reads it as one word.
func shellWord(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+:@%", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
