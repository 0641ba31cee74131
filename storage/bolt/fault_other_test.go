//go:build !linux

package bolt_test

import "errors"

func smallDisk(string) error { return errors.New("only on linux") }
