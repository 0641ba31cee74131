package slack

import "time"

// A Rate allows Burst calls at once and one more per further Every. The zero
// Rate is unlimited.
type Rate struct {
	Burst int
	Every time.Duration
}

// Limits are the rate limits of an app in one workspace.
type Limits struct {
	Channel Rate    // chat.postMessage and chat.postEphemeral in one channel
	Tiers   [5]Rate // all other methods, each separately, by tier 1 to 4
}

// RealLimits returns the limits that Slack documents: about one message per
// second in a channel with short bursts, and 1, 20, 50 and 100 calls per minute
// of a method, by its tier.
func RealLimits() Limits {
	return Limits{
		Channel: Rate{Burst: 4, Every: time.Second},
		Tiers:   [5]Rate{1: tier1(), 2: {20, 3 * time.Second}, 3: {50, 1200 * time.Millisecond}, 4: {100, 600 * time.Millisecond}},
	}
}

// tier1 is also the limit of restricted apps for histories.
func tier1() Rate { return Rate{1, time.Minute} }

// A meter holds the time at which the full rate is available again.
type meter struct{ whole time.Time }

// take counts a call, or returns how long to wait until it is allowed.
func (m *meter) take(r Rate, now time.Time) time.Duration {
	if r.Burst <= 0 || r.Every <= 0 {
		return 0
	}
	from := m.whole
	if from.Before(now) {
		from = now
	}
	next := from.Add(r.Every)
	if wait := next.Sub(now) - time.Duration(r.Burst)*r.Every; wait > 0 {
		return wait
	}
	m.whole = next
	return 0
}

// A meterKey identifies the rate limit of one bot for a method or a channel.
type meterKey struct{ bot, method, channel string }

// SetLimits replaces the rate limits for later calls.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
}

// chargeLocked refuses a call that exceeds a rate limit.
func (s *Server) chargeLocked(b *Bot, name, channel string, m method) *apiError {
	rate, key := s.limits.Tiers[m.tier], meterKey{bot: b.botID, method: name}
	switch {
	case m.tier == tierChannel:
		rate, key = s.limits.Channel, meterKey{bot: b.botID, channel: channel}
	case m.history && b.app.opts.Restricted:
		rate = tier1()
	}
	if rate == (Rate{}) {
		return nil
	}
	at := s.meters[key]
	if at == nil {
		at = &meter{}
		s.meters[key] = at
	}
	if wait := at.take(rate, time.Now()); wait > 0 {
		return tooMany(wait)
	}
	return nil
}
