package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/app"
)

// The third mapping contains the relocations of the linker: it is no longer
// writable, but differs from the file. Releasing it would crash the process.
const smaps = `00400000-00402000 r--p 00000000 fe:00 1 /usr/bin/hermesd
Rss:                   8 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
00402000-013ed000 r-xp 00002000 fe:00 1 /usr/bin/hermesd
Rss:                9000 kB
Anonymous:             0 kB
0245a000-0245b000 r--p 0205a000 fe:00 1 /usr/bin/hermesd
Rss:                   4 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
0245b000-0482f000 rw-p 0205b000 fe:00 1 /usr/bin/hermesd
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 2 /lib/libc.so.6
Anonymous:             0 kB
VmFlags: rd mr mw me
`

func TestCleanMappingsOfExecutable(t *testing.T) {
	want := []string{"400000-402000", "402000-13ed000"}
	if d := cmp.Diff(want, app.CleanCopies(strings.NewReader(smaps), "/usr/bin/hermesd")); d != "" {
		t.Error(d)
	}
}
