//go:build !unix

package app

// mayWrite reports whether this process may create files in a directory. It is not known
// here, so that an attempt shows it.
func mayWrite(string) bool { return true }
