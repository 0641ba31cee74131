//go:build !linux

package app

import "runtime/debug"

// releaseMemory gives back what only the start has needed.
func releaseMemory() { debug.FreeOSMemory() }
