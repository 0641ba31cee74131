//go:build !linux

package spawn

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"
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

type child struct{}

type childTable struct{}

var started childTable

func (*childTable) start(cmd *exec.Cmd, _ bool) (*child, error) { return &child{}, cmd.Start() }
func (*childTable) end(*child)                                  {}
func (*childTable) remove(*child)                               {}

// WithTimerSlack calls start: only Linux has a timer slack for each process.
func WithTimerSlack(_ time.Duration, start func() error) error { return start() }

// AdoptOrphans does nothing: descendants can be found on Linux only.
func AdoptOrphans() (stop func(), err error) { return func() {}, nil }

// CheckPeer returns nil: descendants can be found on Linux only.
func CheckPeer(syscall.Conn) error { return nil }

// lowerPriority does nothing.
func lowerPriority(*exec.Cmd) {}

// waitChild waits for the end of the child and calls ended.
func waitChild(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}
