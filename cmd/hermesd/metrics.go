package main

import (
	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
)

func (c *cli) metricsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "metrics", Short: "Print what the daemon counts, in the text format of Prometheus", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDaemon(cmd.Context(), func(client *admin.Client) error {
				text, err := client.Metrics(cmd.Context())
				if err != nil {
					return err
				}
				return c.print(text)
			})
		},
	}
}
