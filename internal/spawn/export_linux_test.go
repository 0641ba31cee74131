package spawn

import "golang.org/x/net/bpf"

// UseHelper makes the program at path the sandbox helper, until restore is called.
func UseHelper(path string) (restore func()) {
	before := helperPath
	helperPath = path
	return func() { helperPath = before }
}

// Filter returns the filter of system calls.
func Filter(noUnix, noInet, noForeign bool) ([]bpf.RawInstruction, error) {
	return seccompFilter(filterConfig{noUnix: noUnix, noInet: noInet, noForeign: noForeign})
}
