package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/tour"
)

// demoCmd is `hermesd demo`.
func (c *cli) demoCmd() *cobra.Command {
	var exit bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The tour: the real daemon against simulators, with the built-in demo model",
		Long: `demo starts the daemon as a process of its own against a simulated Telegram,
with the built-in demo model: a direct chat, a group, a tool, a kill -9 in the
middle of a turn, and the figures at the end. It needs no account and no key,
and touches nothing outside a temporary directory.`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			go func() { // ends with the command
				select {
				case <-c.signals:
					cancel()
				case <-ctx.Done():
				}
			}()
			return tour.Run(ctx, tour.Options{Binary: self, Stay: !exit, In: c.in, Out: c.out})
		},
	}
	cmd.Flags().BoolVar(&exit, "exit", false, "end after the tour")
	return cmd
}
