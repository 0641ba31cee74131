//go:build !unix

package main

import "errors"

// reexec is not possible here: whoever started the process has to do it again.
func reexec() error { return errors.New("this system cannot replace a process; start hermesd again") }
