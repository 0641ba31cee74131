package failure

import (
	"sync"
	"time"

	"hermesd/gateway/i18n"
)

// FallbackStats counts how often a fallback model answered since the start of the
// process. Model, Reason and At describe the newest time.
type FallbackStats struct {
	Count  int       `json:"count"`
	Model  string    `json:"model,omitempty"` // provider/model
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// A FallbackCounter counts fallbacks. The zero FallbackCounter is ready for use. Its
// methods may be called from any goroutine.
type FallbackCounter struct {
	mu    sync.Mutex // guards what follows
	stats FallbackStats
}

// Add counts one fallback to model ("provider/model") because of err.
func (c *FallbackCounter) Add(model string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats = FallbackStats{c.stats.Count + 1, model, Summary(i18n.Printer{}, err), time.Now()}
}

// Snapshot returns the current statistics.
func (c *FallbackCounter) Snapshot() FallbackStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}
