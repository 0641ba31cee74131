//go:build release

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// runDemo runs the program hermesd-demo, with the program self as the daemon.
func (c *cli) runDemo(ctx context.Context, self string, exit bool) error {
	dir := filepath.Dir(self)
	program, err := exec.LookPath(filepath.Join(dir, "hermesd-demo"))
	if err != nil {
		program, err = exec.LookPath("hermesd-demo")
	}
	if err != nil {
		return fmt.Errorf("the simulators are in the program hermesd-demo, which is neither in %s nor on PATH; take it from the archive of this release (%s)", dir, version)
	}
	args := []string{"--daemon", self}
	if exit {
		args = append(args, "--exit")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.errs
	cmd.Cancel = func() error {
		_ = cmd.Process.Signal(os.Interrupt) // Windows has no such signal; there the console tells both programs
		return os.ErrProcessDone             // so that ending the demo is no error
	}
	cmd.WaitDelay = 90 * time.Second // stopping the daemon takes 70 s at most
	err = cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Exited() {
		return &exitError{ended.ExitCode()}
	}
	return err
}
