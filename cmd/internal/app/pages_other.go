//go:build !linux

package app

import "runtime/debug"

// letGo gives back what only the start has needed.
func letGo() { debug.FreeOSMemory() }
