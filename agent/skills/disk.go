package skills

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// randomLen is the length of the result of rand.Text.
const randomLen = 26

// hiddenName returns a name that a walk ignores.
func hiddenName(kind string) string { return "." + kind + "-" + rand.Text() }

// isLeftover reports whether a name comes from hiddenName.
func isLeftover(name string) bool {
	kind, rest, ok := strings.Cut(strings.TrimPrefix(name, "."), "-")
	return ok && name[0] == '.' && len(rest) == randomLen && slices.Contains([]string{"new", "old", "tmp"}, kind)
}

// writeNewFile writes a new file and returns after it is on disk.
func writeNewFile(root *os.Root, file string, content []byte, mode fs.FileMode) error {
	f, err := root.OpenFile(filepath.FromSlash(file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncFolder makes a change of names in a directory durable.
func syncFolder(root *os.Root, dir string) error {
	f, err := root.Open(filepath.FromSlash(dir))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("what was written may not outlast a crash: %s", errorReason(err))
	}
	return nil
}

// A stamp distinguishes states of a file or directory without reading it. The
// zero stamp means that it does not exist.
type stamp struct {
	Modified int64  `json:"m,omitempty"` // nanoseconds, like Changed
	Changed  int64  `json:"c,omitempty"`
	Size     int64  `json:"s,omitempty"`
	Inode    uint64 `json:"i,omitempty"`
}

// clockGranularity is the coarsest clock of a file system: a file that was
// modified so shortly before it was read may be modified again with the same
// time.
const clockGranularity = 2 * time.Second

// settledOrUnknown returns the stamp, which was taken just now, if later
// changes would give another one, and otherwise a stamp that equals no other. A
// time in the future is as good as one in the past.
func (s stamp) settledOrUnknown() stamp {
	if age := time.Since(time.Unix(0, s.Modified)); age < clockGranularity && age > -clockGranularity {
		return stamp{Size: -1}
	}
	return s
}

// forEach calls f with 0 to n-1, from up to GOMAXPROCS goroutines if n is
// large. It returns after all calls have returned.
func forEach(n int, f func(i int)) {
	const batch = 32
	var next atomic.Int64
	work := func() {
		for {
			end := int(next.Add(batch))
			if end-batch >= n {
				return
			}
			for i := end - batch; i < min(end, n); i++ {
				f(i)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/batch) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
