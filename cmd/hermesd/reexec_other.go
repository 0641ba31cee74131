//go:build !unix

package main

import "errors"

// reexec returns an error: replacing a process is not supported on this system.
func reexec() error { return errors.New("this system cannot replace a process; start hermesd again") }
