// Package lazyregexp compiles regular expressions when they are first used. Those of
// packages that are initialized before internal/spawn would otherwise be compiled whenever
// the sandbox helper starts, for each command.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. It is like
// regexp.MustCompile, but panics at the first call if expr is invalid.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
