//go:build !release

package main

import (
	"context"

	"hermesd/cmd/internal/demo"
)

// runDemo runs the tour in this process, with the program self as the daemon.
func (c *cli) runDemo(ctx context.Context, self string, exit bool) error {
	return demo.Run(ctx, demo.Options{Binary: self, Command: "go run ./cmd/hermesd", Stay: !exit, In: c.in, Out: c.out})
}
