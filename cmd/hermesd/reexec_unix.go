//go:build unix

package main

import (
	"os"
	"syscall"
)

// reexec replaces the process by a new one of the same program with the same
// arguments. It returns only if that fails.
func reexec() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(restartedEnv, "1"); err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, os.Environ())
}
