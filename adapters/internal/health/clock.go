package health

import (
	"net/http"
	"time"
)

// little is a difference between two clocks of which nothing is thought: the
// platform says whole seconds, and what it says takes time to come.
const little = 2 * time.Minute

// Clock returns rt, and learns from the answers that come by it what time it is
// where the platform is.
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

// CloseIdleConnections closes those of the transport inside.
func (c *clocked) CloseIdleConnections() {
	if t, ok := c.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// clock notes that it is date where the platform is.
func (r *Record) clock(date time.Time) {
	ahead := time.Since(date)
	if ahead.Abs() < little {
		ahead = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health.ClockAhead = ahead
}
