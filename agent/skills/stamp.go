package skills

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

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
