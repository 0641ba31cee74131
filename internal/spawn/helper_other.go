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

func (s *Sandbox) wrap(*exec.Cmd) error { return errUnsupported }

func (s *Sandbox) processBound(context.Context, string) string { return "" }

func landlockABI() (int, string) { return 0, errUnsupported.Error() }

func supervise(helperRequest) int { return reportFailure(errUnsupported) }

func enter(helperRequest) int { return reportFailure(errUnsupported) }
