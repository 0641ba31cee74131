package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// demoCmd returns the command `hermesd demo`. A release contains no simulators: built with
// the tag release, runDemo starts the program hermesd-demo.
func (c *cli) demoCmd() *cobra.Command {
	var exit bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The tour: the real daemon against simulators, with the built-in demo model",
		Long: `demo starts the daemon as a process of its own between a simulated Telegram,
Discord and Slack, with the built-in demo model: a conversation on each, a
kill -9 in the middle of a turn, an outage on each platform, and a verdict for
each at the end. It needs no account and no key, and touches nothing outside a
temporary directory. The simulators of a release are in the program
hermesd-demo, which is looked for next to hermesd and on PATH.`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err == nil {
				self, err = filepath.EvalSymlinks(self)
			}
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			c.watchSignals()
			go func() { // ends with the command
				select {
				case <-c.signals:
					cancel()
				case <-ctx.Done():
				}
			}()
			return c.runDemo(ctx, self, exit)
		},
	}
	cmd.Flags().BoolVar(&exit, "exit", false, "end after the tour")
	return cmd
}
