//go:build !unix

package main

import "errors"

// become is not possible here: whoever started the process has to do it again.
func become() error { return errors.New("this system cannot replace a process; start hermesd again") }
