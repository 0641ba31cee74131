package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/tui/text"
)

func (c *cli) configCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "config", Short: "Check and show the configuration"})
	cmd.AddCommand(
		&cobra.Command{
			Use: "check", Short: "Say what is wrong with the configuration, with file, line and column", Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error { return c.configCheck() },
		},
		&cobra.Command{
			Use: "show", Short: "Print the configuration in effect and where each value comes from; secrets are masked", Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error { return c.configShow() },
		},
		&cobra.Command{
			Use: "schema", Short: "Print the JSON schema of config.yaml", Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error {
				raw, err := config.Schema()
				if err != nil {
					return err
				}
				return c.print(string(raw) + "\n")
			},
		},
		&cobra.Command{
			Use: "example", Short: "Print config.yaml with every key, its default and what it means", Args: args(0, 0),
			RunE: func(*cobra.Command, []string) error { return c.print(string(config.Example())) },
		},
	)
	return cmd
}

// checked is the output of `config check --json`.
type checked struct {
	OK       bool             `json:"ok"`
	File     string           `json:"file,omitempty"`
	Problems []config.Problem `json:"problems"`
	Warnings []config.Problem `json:"warnings"`
}

func (c *cli) configCheck() error {
	cfg, report, err := config.Load(config.Options{Home: c.home, File: c.file, Env: c.env})
	var bad *config.Error
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	res := checked{OK: err == nil, File: report.File, Problems: []config.Problem{}, Warnings: append([]config.Problem{}, report.Warnings...)}
	if bad != nil {
		res.Problems = bad.Problems
	} else {
		_, unusable := app.Usable(cfg, report, report.Home)
		res.Problems = append(res.Problems, app.ImpossibleMemory(cfg, report, report.Home)...)
		res.OK = len(res.Problems) == 0
		unusable = slices.DeleteFunc(unusable, func(p config.Problem) bool { return slices.Contains(res.Problems, p) })
		res.Warnings = append(append(res.Warnings, unusable...), app.Down(cfg, report)...)
	}
	perr := c.show(res, func() string {
		s := ""
		for _, p := range res.Problems {
			s += "error: " + p.String() + "\n"
		}
		for _, p := range res.Warnings {
			s += "warning: " + p.String() + "\n"
		}
		where := cmp.Or(res.File, report.Missing+" does not exist: the defaults")
		if res.OK {
			return s + fmt.Sprintf("%s: ok, %s\nmodel: %s\n", where, text.Count(len(res.Warnings), "warning"), report.Model)
		}
		return s + fmt.Sprintf("%s: %s, %s\n", where, text.Count(len(res.Problems), "error"), text.Count(len(res.Warnings), "warning"))
	})
	if perr == nil && !res.OK {
		return &exitError{exitConfig}
	}
	return perr
}

func (c *cli) configShow() error {
	cfg, report, err := c.load()
	if err != nil {
		return err
	}
	if !c.json {
		return config.Show(c.out, cfg, report)
	}
	return c.show(map[string]any{
		"home": report.Home, "file": report.File, "model": report.Model.String(), "settings": config.Settings(cfg, report),
	}, nil)
}
