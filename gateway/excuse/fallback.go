package excuse

import (
	"sync"
	"time"

	"hermesd/gateway/words"
)

// Fallbacks counts how often since the start another model answered than the one
// that was asked, and knows the newest time.
type Fallbacks struct {
	Count int       `json:"count"`
	By    string    `json:"by,omitempty"` // provider/model
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// A Tally keeps Fallbacks. Its methods may be called from any goroutine.
type Tally struct {
	mu  sync.Mutex // guards what follows
	now Fallbacks
}

// Note counts one: by answers, for err.
func (t *Tally) Note(by string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = Fallbacks{t.now.Count + 1, by, Short(words.Printer{}, err), time.Now()}
}

// Now returns the count of now.
func (t *Tally) Now() Fallbacks {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}
