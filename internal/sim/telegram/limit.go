package telegram

import (
	"strings"
	"time"
)

// A Rate allows N calls at once and N more per further Per. The zero Rate is
// unlimited.
type Rate struct {
	N   int
	Per time.Duration
}

// Limits are the rate limits for sends and edits of a bot. Telegram's own are
// about one message per second in one chat, twenty per minute in a group and
// thirty per second in total.
type Limits struct {
	Chat  Rate // each private chat
	Group Rate // each group and channel
	All   Rate // all chats of a bot together
}

// A meter holds the state of one rate limit.
type meter struct {
	next time.Time // when the full rate is available again
}

// ask returns how long to wait until another call is allowed; 0 if it is
// allowed now.
func (m *meter) ask(r Rate, now time.Time) time.Duration {
	if r.N <= 0 || r.Per <= 0 {
		return 0
	}
	from := m.next
	if from.Before(now) {
		from = now
	}
	return max(0, from.Add(r.Per/time.Duration(r.N)).Sub(now)-r.Per)
}

// take counts a call that ask allowed.
func (m *meter) take(r Rate, now time.Time) {
	if r.N <= 0 || r.Per <= 0 {
		return
	}
	if m.next.Before(now) {
		m.next = now
	}
	m.next = m.next.Add(r.Per / time.Duration(r.N))
}

// A meterKey identifies the rate limit of one bot in one chat; chat 0 means all
// chats.
type meterKey struct{ bot, chat int64 }

// SetLimits replaces the rate limits for later calls.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
}

// Flood refuses every send and edit in a chat for d, with the remaining time as
// retry_after; chat 0 means all chats.
func (s *Server) Flood(chat int64, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floods[chat] = time.Now().Add(d)
}

// limited reports whether calls of a method count against the rate limits.
func limited(method string) bool {
	return strings.HasPrefix(method, "send") && method != "sendchataction" && method != "sendmessagedraft" ||
		strings.HasPrefix(method, "editmessage") || strings.HasPrefix(method, "copymessage") ||
		strings.HasPrefix(method, "forwardmessage")
}

// chargeLocked refuses a call that exceeds a rate limit.
func (s *Server) chargeLocked(bot int64, ch *Chat) *apiError {
	now := time.Now()
	for _, id := range []int64{0, ch.id} {
		if until, ok := s.floods[id]; ok {
			if now.Before(until) {
				return tooMany(until.Sub(now))
			}
			delete(s.floods, id)
		}
	}
	rate := s.limits.Chat
	if ch.kind != Private {
		rate = s.limits.Group
	}
	if rate == (Rate{}) && s.limits.All == (Rate{}) {
		return nil
	}
	one, all := s.meterLocked(bot, ch.id), s.meterLocked(bot, 0)
	if wait := max(one.ask(rate, now), all.ask(s.limits.All, now)); wait > 0 {
		return tooMany(wait)
	}
	one.take(rate, now)
	all.take(s.limits.All, now)
	return nil
}

func (s *Server) meterLocked(bot, chat int64) *meter {
	key := meterKey{bot, chat}
	m := s.meters[key]
	if m == nil {
		m = &meter{}
		s.meters[key] = m
	}
	return m
}
