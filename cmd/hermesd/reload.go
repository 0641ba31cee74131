package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
)

func (c *cli) reloadCmd() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Reload the configuration; list the changes applied and those that need a restart", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDaemon(cmd.Context(), func(client *admin.Client) error {
				done, err := client.Reload(cmd.Context())
				if err != nil {
					return err
				}
				if done.Problem != "" {
					c.printErrors(errors.New(done.Problem))
					c.printNote("the configuration that was read before stays in effect")
					return &exitError{exitConfig}
				}
				return c.show(done, func() string { return reloadText(done) })
			})
		},
	}
}

func reloadText(s admin.Config) string {
	if len(s.Applied)+len(s.PendingRestart) == 0 {
		return "The configuration is what it was when the daemon started.\n"
	}
	out := ""
	if len(s.Applied) > 0 {
		out += "In effect: " + strings.Join(s.Applied, ", ") + ".\n"
	}
	if len(s.PendingRestart) > 0 {
		out += "After a restart: " + strings.Join(s.PendingRestart, ", ") + ".\n"
	}
	return out
}
