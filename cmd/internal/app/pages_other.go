//go:build !linux

package app

import "runtime/debug"

// releaseMemory releases memory that only the start needed.
func releaseMemory() { debug.FreeOSMemory() }
