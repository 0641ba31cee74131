//go:build !linux

package spawn

import "os/exec"

// yield does nothing.
func yield(*exec.Cmd) {}

// await waits for the end of the child and calls ended.
func await(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}
