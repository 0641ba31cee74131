package outbox

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"hermesd/gateway/chat"
)

// A Rate allows at most N sends in any interval of length Per. The zero Rate is no
// limit.
type Rate struct {
	N   int
	Per time.Duration
}

// maxRate bounds Rate.N, because that many send times are kept in memory.
const maxRate = 10_000

// ParseRate parses a rate in the format of the configuration: "20/1m", "30/s",
// or "" for no limit.
func ParseRate(s string) (Rate, error) {
	if s = strings.TrimSpace(s); s == "" {
		return Rate{}, nil
	}
	num, per, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(strings.TrimSpace(num))
	if !ok || err != nil || n < 1 || n > maxRate {
		return Rate{}, fmt.Errorf("invalid rate %q: want a number from 1 to %d, a slash and a duration, such as 20/1m", s, maxRate)
	}
	per = strings.TrimSpace(per)
	if per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	d, err := time.ParseDuration(per)
	if err != nil || d <= 0 || d > 24*time.Hour {
		return Rate{}, fmt.Errorf("invalid rate %q: want a number, a slash and a duration of at most 24h, such as 20/1m", s)
	}
	return Rate{N: n, Per: d}, nil
}

// A RateLimit is the limit that the operator configured for an account, in
// addition to the limits of the platform.
type RateLimit struct {
	PerAccount Rate // all sends of the account together
	PerChat    Rate // the sends to one chat
}

// A Throttle delays sends to honor rate limits: those of the platforms, which it
// learns from their responses, and the configured RateLimits. Without a RateLimit
// it delays a send only after the platform has asked for it, and exactly as long
// as the platform asked. It is not stored: after a restart a platform that still
// limits sends reports that again. Its methods may be called from any goroutine.
type Throttle struct {
	limits map[chat.Account]RateLimit // immutable

	mu       sync.Mutex // guards what follows
	chats    map[chat.Address]time.Time
	accounts map[chat.Account]time.Time
	sent     map[chat.Address][]time.Time // times of sends under a RateLimit, oldest first
	sweepAt  int                          // number of keys that triggers the next sweep
}

// NewThrottle returns a Throttle that enforces only limits.
func NewThrottle(limits map[chat.Account]RateLimit) *Throttle {
	return &Throttle{
		limits:   limits,
		chats:    make(map[chat.Address]time.Time),
		accounts: make(map[chat.Account]time.Time),
		sent:     make(map[chat.Address][]time.Time),
	}
}

// RecordRetryAfter records that a platform asked at now to wait for after: before
// the next send to the chat of to, or, if global, before the next send of its
// account. An earlier record that ends later stays in effect.
func (t *Throttle) RecordRetryAfter(to chat.Address, after time.Duration, global bool, now time.Time) {
	if after <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	until := now.Add(after)
	if global {
		if a := to.AccountID(); until.After(t.accounts[a]) {
			t.accounts[a] = until
		}
		return
	}
	if r := to.WithoutThread(); until.After(t.chats[r]) {
		t.chats[r] = until
	}
}

// Delay returns how long a send to to has to wait at now; 0 if it may start.
func (t *Throttle) Delay(to chat.Address, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waitLocked(to, now)
}

// Reserve is like Delay, but also counts the send against the RateLimits if it may
// start.
func (t *Throttle) Reserve(to chat.Address, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := t.waitLocked(to, now)
	if wait > 0 {
		return wait
	}
	c := t.limits[to.AccountID()]
	t.recordSend(accountScope(to), c.PerAccount, now)
	t.recordSend(to.WithoutThread(), c.PerChat, now)
	return 0
}

func (t *Throttle) waitLocked(to chat.Address, now time.Time) time.Duration {
	c := t.limits[to.AccountID()]
	return max(0,
		t.chats[to.WithoutThread()].Sub(now),
		t.accounts[to.AccountID()].Sub(now),
		windowWait(t.sent[accountScope(to)], c.PerAccount, now),
		windowWait(t.sent[to.WithoutThread()], c.PerChat, now))
}

// accountScope returns the key for the sends of a whole account. It differs from
// the key of any chat, because that has a chat ID.
func accountScope(to chat.Address) chat.Address {
	return chat.Address{Platform: to.Platform, Account: to.Account}
}

// windowWait returns how long it takes until r allows one more send after those
// in sent.
func windowWait(sent []time.Time, r Rate, now time.Time) time.Duration {
	if r.N <= 0 || len(sent) < r.N {
		return 0
	}
	return sent[len(sent)-r.N].Add(r.Per).Sub(now)
}

func (t *Throttle) recordSend(k chat.Address, r Rate, now time.Time) {
	if r.N <= 0 {
		return
	}
	s := append(t.sent[k], now)
	if len(s) > r.N {
		s = append(s[:0], s[len(s)-r.N:]...)
	}
	if _, ok := t.sent[k]; !ok {
		t.sweep(now)
	}
	t.sent[k] = s
}

// sweep deletes entries that no longer delay anything. It does so whenever the
// number of entries has doubled since the last sweep.
func (t *Throttle) sweep(now time.Time) {
	if len(t.chats)+len(t.accounts)+len(t.sent) < t.sweepAt {
		return
	}
	defer func() { t.sweepAt = 64 + 2*(len(t.chats)+len(t.accounts)+len(t.sent)) }()
	for k, at := range t.chats {
		if !at.After(now) {
			delete(t.chats, k)
		}
	}
	for k, at := range t.accounts {
		if !at.After(now) {
			delete(t.accounts, k)
		}
	}
	for k, s := range t.sent {
		c := t.limits[k.AccountID()]
		per := c.PerChat.Per
		if k == accountScope(k) {
			per = c.PerAccount.Per
		}
		if !s[len(s)-1].Add(per).After(now) {
			delete(t.sent, k)
		}
	}
}
