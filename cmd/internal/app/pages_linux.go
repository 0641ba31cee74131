package app

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseMemory gives back what only the start has needed: free memory, and the pages of
// the program's own file, of which the tables of the search engine alone are
// several MiB. They are clean copies of the file, so what is needed again is
// simply read again.
func releaseMemory() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }() // it was only read
	for _, c := range cleanCopies(maps, self) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, c.from, c.to-c.from, unix.MADV_DONTNEED) // advice: nothing is lost without it
	}
}

// A span is a range of addresses.
type span struct{ from, to uintptr }

// cleanCopies finds in a table of mappings those of a file that are what is in
// the file. One that cannot be written is not always: a linker writes its tables
// of addresses first and takes the right to write away then, so that without them
// the next call of a C function goes to address 0.
func cleanCopies(smaps io.Reader, file string) []span {
	var found []span
	var at span
	ours := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		var next span
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &next.from, &next.to, &mode); n == 3 {
			at = next
			ours = strings.HasSuffix(line, " "+file) && !strings.Contains(mode, "w")
			continue
		}
		if name, size, ok := strings.Cut(line, ":"); ours && ok && name == "Anonymous" && strings.Fields(size)[0] == "0" {
			found = append(found, at)
		}
	}
	return found
}
