//go:build !linux

package spawn

import "os/exec"

// lowerPriority does nothing.
func lowerPriority(*exec.Cmd) {}

// waitChild waits for the end of the child and calls ended.
func waitChild(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}
