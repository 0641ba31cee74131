package failure

import (
	"sync"
	"time"

	"hermesd/gateway/i18n"
)

// FallbackStats counts how often since the start another model answered than the one
// that was asked, and knows the newest time.
type FallbackStats struct {
	Count  int       `json:"count"`
	Model  string    `json:"by,omitempty"` // provider/model
	Reason string    `json:"why,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// A FallbackCounter keeps Fallbacks. Its methods may be called from any goroutine.
type FallbackCounter struct {
	mu  sync.Mutex // guards what follows
	now FallbackStats
}

// Add counts one: by answers, for err.
func (t *FallbackCounter) Add(by string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = FallbackStats{t.now.Count + 1, by, Summary(i18n.Printer{}, err), time.Now()}
}

// Snapshot returns the count of now.
func (t *FallbackCounter) Snapshot() FallbackStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}
