package app

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// gcHeadroom is the number of bytes that may be allocated on top of the live heap
// before a garbage collection. With a live heap of a few MiB, Go's default would
// collect every few messages; with a large one the default applies.
const gcHeadroom = 16 << 20

// A gcPacer adjusts the target percentage of the garbage collector after each
// collection.
type gcPacer struct{ live []metrics.Sample }

// startGCPacing starts a gcPacer. It runs until the process ends, because the daemon
// is the whole process.
func startGCPacing() {
	c := &gcPacer{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.adapt()
	runtime.SetFinalizer(&gcSentinel{c}, (*gcSentinel).onCollected)
}

// A gcSentinel is an unreachable object: each collection runs its finalizer, which
// sets itself again.
type gcSentinel struct{ c *gcPacer }

func (s *gcSentinel) onCollected() {
	s.c.adapt()
	runtime.SetFinalizer(s, (*gcSentinel).onCollected)
}

func (c *gcPacer) adapt() {
	metrics.Read(c.live)
	debug.SetGCPercent(gcPercent(c.live[0].Value.Uint64()))
}

// gcPercent returns the growth in percent that gcHeadroom allows for a live heap,
// between Go's default of 100 and 400.
func gcPercent(live uint64) int {
	return int(min(400, max(100, gcHeadroom*100/max(1, live))))
}
