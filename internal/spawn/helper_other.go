//go:build !linux

package spawn

import (
	"context"
	"errors"
	"os/exec"
)

// supported reports whether sandboxes exist for this operating system.
const supported = false

var errUnsupported = errors.New("there is no sandbox for this system")

func (s *Sandbox) wrap(*exec.Cmd, int64, bool) error { return errUnsupported }

func findBwrap() (string, error) { return "", errUnsupported }

func (s *Sandbox) probe(context.Context, bool) error { return errUnsupported }

func landlockABI() (int, string) { return 0, errUnsupported.Error() }

func supervise(helperRequest) int { return reportFailure(errUnsupported) }

func enter(helperRequest) int { return reportFailure(errUnsupported) }

func selfTest(string) int { return reportFailure(errUnsupported) }

func closeOnExec() error { return nil }
