package spawn

import "golang.org/x/net/bpf"

// Filter returns the filter of system calls.
func Filter(noUnix, noInet, noForeign bool) ([]bpf.RawInstruction, error) {
	return seccompFilter(filterConfig{noUnix: noUnix, noInet: noInet, noForeign: noForeign})
}
