package skills

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A stamp tells one state of a file or folder from another without reading it.
// The zero stamp stands for nothing that exists.
type stamp struct {
	Modified int64  `json:"m,omitempty"` // nanoseconds, like Changed
	Changed  int64  `json:"c,omitempty"`
	Size     int64  `json:"s,omitempty"`
	Inode    uint64 `json:"i,omitempty"`
}

// coarse is the coarsest clock of a file system: what was modified so shortly
// before it was read may be modified again with the same time.
const coarse = 2 * time.Second

// settled returns the stamp, which was taken just now, if what it stands for can
// be told apart from what comes after, and one that is equal to none if it
// cannot. A time in the future is as good as one in the past.
func (s stamp) settled() stamp {
	if age := time.Since(time.Unix(0, s.Modified)); age < coarse && age > -coarse {
		return stamp{Size: -1}
	}
	return s
}

// each calls f with 0 to n-1, from as many goroutines as there are processors
// if that is worth it. It returns when all calls have: nobody else waits for
// its goroutines.
func each(n int, f func(i int)) {
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
