package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/internal/spawn"
)

func (c *cli) sandboxCmd() *cobra.Command {
	return &cobra.Command{
		Use: "sandbox", Short: "Open the sandbox of commands as the daemon does, test it, and show what commands may do; fails if none works", Args: args(0, 0),
		Long: `Open the sandbox of commands as the daemon does, test it, and show what commands
may do. It fails if terminal.sandbox is auto and no sandbox works: then the agent has
no terminal. The daemon need not run; ` + "`hermesd status`" + ` shows what it uses.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, report, err := c.load()
			if err != nil {
				return err
			}
			s := app.CheckSandbox(cmd.Context(), cfg, report, report.Home)
			if err := c.show(s, func() string { return sandboxText(s) }); err != nil {
				return err
			}
			if s.Error != "" {
				return &exitError{exitFailed}
			}
			return nil
		},
	}
}

func sandboxText(s admin.Sandbox) string {
	b := sheet{width: 11}
	each := func(name string, lines []string) {
		for _, l := range lines {
			b.line(name, "%s", l)
			name = ""
		}
	}
	if !s.Enabled {
		b.line("terminal", "none: terminal.enabled is false")
		return b.String()
	}
	b.line("configured", "terminal.sandbox: %s", s.Mode)
	b.line("in use", "%s", s.Describe())
	each("not reached", s.Tested) // by the self-test
	each("not used", s.Reasons)
	if s.Mechanism != string(spawn.None) {
		each("may change", s.Write)
		each("may read", shorten(s.Read, spawn.SystemPaths()))
		each("hidden", s.Hidden)
		b.line("network", "%s", cmp.Or(s.Network, "not restricted"))
		b.line("processes", "%s", cmp.Or(s.Processes, "only their timeout limits them"))
	}
	for _, l := range s.Limits {
		b.line("LIMIT", "%s", l.Cause)
		b.line("", "→ %s", l.Fix)
	}
	return b.String()
}

// shorten returns paths with those of system in one line.
func shorten(paths, system []string) []string {
	var own, common []string
	for _, p := range paths {
		if slices.Contains(system, p) {
			common = append(common, p)
		} else {
			own = append(own, p)
		}
	}
	return append([]string{strings.Join(common, " ")}, own...)
}
