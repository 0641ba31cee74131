package app

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// headroom is the memory that may be used before the garbage is collected, beyond
// what lives. With a live heap of a few MiB, Go's own rule would collect every
// few messages; with a large one its rule holds.
const headroom = 16 << 20

// A collector adapts the garbage collector's pace after each of its rounds.
type collector struct{ live []metrics.Sample }

// pace starts to adapt. It lasts as long as the process: the daemon is all of it.
func pace() {
	c := &collector{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.adapt()
	runtime.SetFinalizer(&sentinel{c}, (*sentinel).collected)
}

// A sentinel is found dead by each round of the collector, and comes back.
type sentinel struct{ c *collector }

func (s *sentinel) collected() {
	s.c.adapt()
	runtime.SetFinalizer(s, (*sentinel).collected)
}

func (c *collector) adapt() {
	metrics.Read(c.live)
	debug.SetGCPercent(percent(c.live[0].Value.Uint64()))
}

// percent is how much the heap may grow over what lives: headroom, but no less
// than Go's own 100 %, and no more than 400 %.
func percent(live uint64) int {
	return int(min(400, max(100, headroom*100/max(1, live))))
}
