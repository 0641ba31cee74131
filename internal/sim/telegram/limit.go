package telegram

import (
	"strings"
	"time"
)

// A Rate allows N calls at once and N more in each further Per. The zero Rate
// allows everything.
type Rate struct {
	N   int
	Per time.Duration
}

// Limits are the rates at which a bot may send and edit. Telegram's own are
// about one message a second in one chat, twenty a minute in a group and
// thirty a second in all.
type Limits struct {
	Chat  Rate // each private chat
	Group Rate // each group and channel
	All   Rate // all chats of a bot together
}

// meter remembers when the next call is free of charge.
type meter struct {
	next time.Time // when the allowance is whole again
}

// ask returns how long to wait before another call fits, 0 if it does now.
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

// take books a call that ask allowed.
func (m *meter) take(r Rate, now time.Time) {
	if r.N <= 0 || r.Per <= 0 {
		return
	}
	if m.next.Before(now) {
		m.next = now
	}
	m.next = m.next.Add(r.Per / time.Duration(r.N))
}

// meterKey names the allowance of one bot in one chat; chat 0 is all chats.
type meterKey struct{ bot, chat int64 }

// SetLimits replaces the rates for all further calls.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
}

// Flood refuses every send and edit to a chat for the time given, with what is
// left of it as retry_after; chat 0 means all chats.
func (s *Server) Flood(chat int64, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floods[chat] = time.Now().Add(d)
}

// limited tells whether calls of a method count against the rates.
func limited(method string) bool {
	return strings.HasPrefix(method, "send") && method != "sendchataction" && method != "sendmessagedraft" ||
		strings.HasPrefix(method, "editmessage") || strings.HasPrefix(method, "copymessage") ||
		strings.HasPrefix(method, "forwardmessage")
}

// chargeLocked refuses a call that comes too soon.
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
