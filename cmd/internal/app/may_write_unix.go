//go:build unix

package app

import "golang.org/x/sys/unix"

// mayWrite reports whether this process may create files in a directory.
func mayWrite(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
