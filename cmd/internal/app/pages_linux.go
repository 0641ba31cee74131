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

// releaseMemory releases what only the start needed: free memory, and the pages of
// the executable file, of which the tables of the search engine alone are several
// MiB. These pages are unmodified copies of the file, so the kernel reads them again
// on demand.
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
	defer func() { _ = maps.Close() }() // read only
	for _, c := range cleanMappings(maps, self) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, c.from, c.to-c.from, unix.MADV_DONTNEED) // best effort
	}
}

// An addressRange is a range of addresses, without its end.
type addressRange struct{ from, to uintptr }

// cleanMappings returns the mappings of a file, from a table in the format of smaps,
// whose memory is identical to the file. A mapping that is not writable may still
// differ: a dynamic linker writes relocations into some pages and removes the write
// permission afterwards. Without those pages the next call of a C function would
// jump to address 0.
func cleanMappings(smaps io.Reader, file string) []addressRange {
	var found []addressRange
	var at addressRange
	matches := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		var next addressRange
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &next.from, &next.to, &mode); n == 3 {
			at = next
			matches = strings.HasSuffix(line, " "+file) && !strings.Contains(mode, "w")
			continue
		}
		if name, size, ok := strings.Cut(line, ":"); matches && ok && name == "Anonymous" && strings.Fields(size)[0] == "0" {
			found = append(found, at)
		}
	}
	return found
}
