package apiclient

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// banLeast is how long no call is made after an answer that bans the IP
	// address without a duration.
	banLeast = time.Minute
	// maxLimits limits the number of remembered empty buckets.
	maxLimits = 1024
)

// limits records which rate-limit buckets Discord has reported as empty, and
// until when. Calls are not delayed before such a report.
type limits struct {
	mu      sync.Mutex // guards the fields below
	global  time.Time
	buckets map[string]time.Time
}

func newLimits() *limits { return &limits{buckets: map[string]time.Time{}} }

// closed returns the error if a call must not be made now, nil if it may be
// made.
func (l *limits) closed(bucket string, now time.Time) *Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, global := l.global, true
	if b := l.buckets[bucket]; bucket != "" && b.After(until) {
		until, global = b, false
	}
	if !until.After(now) {
		return nil
	}
	after := until.Sub(now)
	return &Error{
		Status: http.StatusTooManyRequests, API: true, After: after, Global: global,
		text: fmt.Sprintf("not called: Discord has asked to wait %v more", after),
	}
}

// learn updates the limits from an answer.
func (l *limits) learn(n *note, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.status == http.StatusTooManyRequests {
		e := n.refusal()
		if e.Global {
			l.global = now.Add(e.After)
			return
		}
		l.set(n.bucket, now.Add(e.After), now)
		return
	}
	if n.header.Get("X-Ratelimit-Remaining") == "0" {
		if d := seconds(n.header.Get("X-Ratelimit-Reset-After")); d > 0 {
			l.set(n.bucket, now.Add(d), now)
		}
	}
}

func (l *limits) set(bucket string, until, now time.Time) {
	if bucket == "" {
		return
	}
	if len(l.buckets) >= maxLimits {
		for k, t := range l.buckets {
			if !t.After(now) {
				delete(l.buckets, k)
			}
		}
	}
	l.buckets[bucket] = until
}

// seconds parses a number of seconds, possibly fractional; 0 if invalid.
func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return span(f)
}

// span converts a server's number of seconds to a duration, 0 if it is
// implausible.
func span(f float64) time.Duration {
	if !(f > 0 && f < 1e6) {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}
