//go:build !linux

package spawn

import "os/exec"

// await waits for the end of the child and calls ended.
func await(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}
