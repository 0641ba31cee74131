// Package health records the connection state of one account.
package health

import (
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// A Record is the state of one connection. Its methods are safe for concurrent
// use and do not block.
type Record struct {
	log *zap.Logger

	mu     sync.Mutex // guards the fields below
	health chat.Health
}

// New returns a record in state Connecting. State changes are logged to log.
func New(log *zap.Logger) *Record {
	return &Record{log: log, health: chat.Health{State: chat.Connecting, Since: time.Now()}}
}

// State returns the current health. Its Name is empty: the record does not know
// the account's name.
func (r *Record) State() chat.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// Set changes the state and its reason. Since is the time of the last change of
// the state; a change of only the reason does not reset it.
func (r *Record) Set(s chat.State, why string) {
	r.mu.Lock()
	changed := r.health.State != s
	if changed {
		r.health.State, r.health.Since = s, time.Now()
	}
	r.health.Error = why
	r.mu.Unlock()
	if changed {
		r.log.Info("connection state changed", zap.String("state", string(s)), zap.String("reason", why))
	}
}

// MarkAlive records that the platform has just shown that the connection works.
func (r *Record) MarkAlive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health.LastContact = time.Now()
}

// little is the largest difference between two clocks that is ignored: the
// platform reports whole seconds, and its answer takes time to arrive.
const little = 2 * time.Minute

// Clock returns a RoundTripper that forwards to rt and records the difference
// between the local clock and the Date headers of the answers.
func (r *Record) Clock(rt http.RoundTripper) http.RoundTripper { return &clocked{rt, r} }

type clocked struct {
	http.RoundTripper
	r *Record
}

func (c *clocked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(req)
	if err == nil {
		if date, wrong := http.ParseTime(resp.Header.Get("Date")); wrong == nil {
			c.r.clock(date)
		}
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (c *clocked) CloseIdleConnections() {
	if t, ok := c.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// clock records the difference to date, the platform's current time.
func (r *Record) clock(date time.Time) {
	ahead := time.Since(date)
	if ahead.Abs() < little {
		ahead = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health.ClockAhead = ahead
}
