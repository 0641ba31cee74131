package metrics

import (
	"strings"
	"sync"
	"time"

	"hermesd/gateway/observe"
)

// A labelLimiter limits the values of a label to max; further ones become "other".
type labelLimiter struct {
	max   int
	mu    sync.Mutex // guards what follows
	known map[string]string
}

func (f *labelLimiter) name(s string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v, ok := f.known[s]; ok {
		return v
	}
	if len(f.known) >= f.max {
		return "other"
	}
	if f.known == nil {
		f.known = make(map[string]string)
	}
	v := strings.ToValidUTF8(s, "?")
	f.known[s] = v
	return v
}

// A wait is the start of the wait for the first part of an answer.
type wait struct {
	since time.Time
	kind  observe.Kind
}

// maxWaits is the maximum number of pending answers; the oldest are dropped.
const maxWaits = 4096

// pendingAnswers holds the turns of which nothing is delivered yet.
type pendingAnswers struct {
	mu    sync.Mutex // guards what follows
	since map[string]wait
	order []string // keys of since, oldest first; some are deleted already
}

func (a *pendingAnswers) expect(turn string, w wait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since == nil {
		a.since = make(map[string]wait)
	}
	if _, ok := a.since[turn]; !ok {
		a.order = append(a.order, turn)
	}
	a.since[turn] = w
	if len(a.order) > maxWaits {
		half := len(a.order) / 2
		for _, t := range a.order[:half] {
			delete(a.since, t)
		}
		a.order = append([]string(nil), a.order[half:]...)
	}
}

// arrived removes and returns the wait of a turn; ok is false after the first call.
func (a *pendingAnswers) arrived(turn string) (w wait, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok = a.since[turn]
	delete(a.since, turn)
	return w, ok
}
