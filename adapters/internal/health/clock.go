package health

import (
	"net/http"
	"time"
)

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

// RoundTrip implements http.RoundTripper.
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
