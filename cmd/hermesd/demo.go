package main

import (
	"context"
	"fmt"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"hermesd/cmd/internal/demo"
)

// demoCmd returns the command `hermesd demo`.
func (c *cli) demoCmd() *cobra.Command {
	var exit bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The tour: the real daemon against simulators, with the built-in demo model",
		Long: `demo starts the daemon as a process of its own between a simulated Telegram,
Discord and Slack, with the built-in demo model: a conversation on each, a
kill -9 in the middle of a turn, an outage on each platform, and a verdict for
each at the end. It needs no account and no key, and touches nothing outside a
temporary directory.`,
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
			return demo.Run(ctx, demo.Options{Binary: self, Stay: !exit, In: c.in, Out: c.out, Width: c.columns(), Environ: os.Environ()})
		},
	}
	cmd.Flags().BoolVar(&exit, "exit", false, "end after the tour")
	return cmd
}

// columns returns the width of the terminal; 0 if the output is not a terminal.
func (c *cli) columns() int {
	f, ok := c.out.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return 0
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return width
}
