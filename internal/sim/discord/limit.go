package discord

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Rate is a number of requests per duration.
type Rate struct {
	Requests int
	Per      time.Duration
}

// Limits are the rate limits of bots. A zero Rate is unlimited. Answers to
// limited routes have X-RateLimit headers.
type Limits struct {
	Global   Rate // of one bot, across all routes
	Messages Rate // sends and edits in one channel, each counted separately
	Other    Rate // every other route, per channel or guild
}

// RealLimits returns limits close to those of Discord.
func RealLimits() Limits {
	return Limits{
		Global:   Rate{Requests: 50, Per: time.Second},
		Messages: Rate{Requests: 5, Per: 5 * time.Second},
		Other:    Rate{Requests: 10, Per: 10 * time.Second},
	}
}

// A meter counts requests. The server's mutex guards it.
type meter struct {
	limits  Limits
	windows map[string]*window
	invalid []time.Time // times of invalid requests in the last ten minutes
	ban     time.Time
}

// A window is a period in which a number of requests is allowed.
type window struct {
	left int
	ends time.Time
}

func (m *meter) take(key string, r Rate) (left int, wait time.Duration) {
	now := time.Now()
	if m.windows == nil {
		m.windows = map[string]*window{}
	}
	w := m.windows[key]
	if w == nil || !now.Before(w.ends) {
		w = &window{left: r.Requests, ends: now.Add(r.Per)}
		m.windows[key] = w
	}
	w.left--
	return w.left, w.ends.Sub(now)
}

// SetLimits replaces the rate limits for later requests.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.limits, s.meter.windows = l, nil
}

// takeRate counts a request and refuses it if it exceeds a limit.
func (s *Server) takeRate(c *call) *apiError {
	s.mu.Lock()
	defer s.mu.Unlock()
	bot := c.path("token")
	if c.bot != nil {
		bot = c.bot.user.ID
	}
	l := s.meter.limits
	if c.bot != nil && l.Global.Requests > 0 {
		if left, wait := s.meter.take(bot, l.Global); left < 0 {
			return tooMany(wait, true, "global")
		}
	}
	r := l.Other
	if c.rec.Route == RouteCreateMessage || c.rec.Route == RouteEditMessage {
		r = l.Messages
	}
	if r.Requests <= 0 {
		return nil
	}
	left, wait := s.meter.take(strings.Join([]string{bot, c.rec.Route, c.path("channel"), c.path("guild")}, "|"), r)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(c.rec.Route)) // never fails
	h := c.header
	h.Set("X-RateLimit-Bucket", fmt.Sprintf("%016x", sum.Sum64()))
	h.Set("X-RateLimit-Limit", strconv.Itoa(r.Requests))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, left)))
	h.Set("X-RateLimit-Reset", seconds(time.Duration(time.Now().Add(wait).UnixNano())))
	h.Set("X-RateLimit-Reset-After", seconds(wait))
	if left < 0 {
		return tooMany(wait, false, "user")
	}
	return nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// tellLimit writes the headers of a 429.
func tellLimit(h http.Header, e *apiError) {
	h.Set("Retry-After", strconv.Itoa(int((e.retryAfter+time.Second-1)/time.Second)))
	h.Set("X-RateLimit-Scope", e.scope)
	if e.global {
		h.Set("X-RateLimit-Global", "true")
		h.Set("X-RateLimit-Reset-After", seconds(e.retryAfter))
	} else if h.Get("X-RateLimit-Reset-After") == "" {
		h.Set("X-RateLimit-Reset-After", seconds(e.retryAfter))
		h.Set("X-RateLimit-Remaining", "0")
	}
}

// invalidSpan is how long an invalid request counts, and how long a ban lasts.
const invalidSpan = 10 * time.Minute

// countInvalid counts an answer that contributes to a ban, and bans when the
// limit is reached.
func (s *Server) countInvalid(e *apiError) {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
	default:
		return
	}
	if e.scope == "shared" {
		return
	}
	s.recorder.note(func(n *Counts) { n.Invalid++ })
	s.mu.Lock()
	defer s.mu.Unlock()
	m, now := &s.meter, time.Now()
	for len(m.invalid) > 0 && now.Sub(m.invalid[0]) > invalidSpan {
		m.invalid = m.invalid[1:]
	}
	if m.invalid = append(m.invalid, now); len(m.invalid) >= s.opts.InvalidRequests {
		m.ban, m.invalid = now.Add(invalidSpan), nil
	}
}

// Ban refuses the requests of all clients for d, as Cloudflare does after too
// many invalid requests: with 429 without JSON. Gateway connections stay open.
func (s *Server) Ban(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.ban = time.Now().Add(d)
}

// banned answers the request of a banned client and reports whether it did.
func (c *call) banned(w http.ResponseWriter) bool {
	c.s.mu.Lock()
	wait := time.Until(c.s.meter.ban)
	c.s.mu.Unlock()
	if wait <= 0 {
		return false
	}
	c.s.recorder.note(func(n *Counts) {
		n.Refused++
		c.rec.Error = "banned"
	})
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	page := "<html><title>Access denied | discord.com used Cloudflare to restrict access</title>error code: 1015</html>"
	c.write(w, http.StatusTooManyRequests, []byte(page), 0)
	return true
}
