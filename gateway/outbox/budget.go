package outbox

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"hermesd/gateway/chat"
)

// A Rate is at most N sends in any window of length Per. The zero Rate is no
// limit.
type Rate struct {
	N   int
	Per time.Duration
}

// maxRate bounds Rate.N, since as many times are remembered.
const maxRate = 10_000

// ParseRate reads a rate as it stands in the configuration: "20/1m", "30/s",
// or "" for none.
func ParseRate(s string) (Rate, error) {
	if s = strings.TrimSpace(s); s == "" {
		return Rate{}, nil
	}
	num, per, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(strings.TrimSpace(num))
	if !ok || err != nil || n < 1 || n > maxRate {
		return Rate{}, fmt.Errorf("a rate is a number from 1 to %d, a slash and a time, such as 20/1m", maxRate)
	}
	per = strings.TrimSpace(per)
	if per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	d, err := time.ParseDuration(per)
	if err != nil || d <= 0 || d > 24*time.Hour {
		return Rate{}, fmt.Errorf("a rate is a number, a slash and a time of at most 24h, such as 20/1m")
	}
	return Rate{N: n, Per: d}, nil
}

// A RateLimit is what an operator allows at most, whatever the platform would
// take.
type RateLimit struct {
	PerAccount Rate // all sends of the account together
	PerChat    Rate // the sends to one room
}

// A Throttle knows when the platforms take sends again. It has learned that from
// their answers: without a Ceiling it never holds back a send before a platform
// has said so, and then exactly as long as the platform named. Its methods may
// be called from any goroutine. It is not kept across restarts: a platform that
// still refuses says so again.
type Throttle struct {
	ceilings map[chat.Account]RateLimit // does not change

	mu       sync.Mutex // guards what follows
	rooms    map[chat.Address]time.Time
	accounts map[chat.Account]time.Time
	sent     map[chat.Address][]time.Time // times of sends under a ceiling, oldest first
	sweepAt  int                          // number of keys over which it is time to sweep
}

// NewThrottle returns a Budget that has learned nothing yet.
func NewThrottle(ceilings map[chat.Account]RateLimit) *Throttle {
	return &Throttle{
		ceilings: ceilings,
		rooms:    make(map[chat.Address]time.Time),
		accounts: make(map[chat.Account]time.Time),
		sent:     make(map[chat.Address][]time.Time),
	}
}

// RecordRetryAfter takes in that a platform asked at now to wait for after: before the
// next send to the room of to, or global: before the next send of its account.
// An earlier answer that reaches further holds on.
func (b *Throttle) RecordRetryAfter(to chat.Address, after time.Duration, global bool, now time.Time) {
	if after <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	until := now.Add(after)
	if global {
		if a := to.AccountID(); until.After(b.accounts[a]) {
			b.accounts[a] = until
		}
		return
	}
	if r := to.WithoutThread(); until.After(b.rooms[r]) {
		b.rooms[r] = until
	}
}

// Delay returns how long a send to to has to wait at now; 0: it may leave.
func (b *Throttle) Delay(to chat.Address, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waitLocked(to, now)
}

// Reserve is Wait, and counts the send against its ceilings if it may leave.
func (b *Throttle) Reserve(to chat.Address, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := b.waitLocked(to, now)
	if wait > 0 {
		return wait
	}
	c := b.ceilings[to.AccountID()]
	b.count(accountScope(to), c.PerAccount, now)
	b.count(to.WithoutThread(), c.PerChat, now)
	return 0
}

func (b *Throttle) waitLocked(to chat.Address, now time.Time) time.Duration {
	c := b.ceilings[to.AccountID()]
	return max(0,
		b.rooms[to.WithoutThread()].Sub(now),
		b.accounts[to.AccountID()].Sub(now),
		windowWait(b.sent[accountScope(to)], c.PerAccount, now),
		windowWait(b.sent[to.WithoutThread()], c.PerChat, now))
}

// accountScope is the key under which the sends of a whole account are counted; no
// room has it, because a room has a chat.
func accountScope(to chat.Address) chat.Address {
	return chat.Address{Platform: to.Platform, Account: to.Account}
}

// windowWait returns how long it takes until a window that ends now has room for one
// more send.
func windowWait(sent []time.Time, r Rate, now time.Time) time.Duration {
	if r.N <= 0 || len(sent) < r.N {
		return 0
	}
	return sent[len(sent)-r.N].Add(r.Per).Sub(now)
}

func (b *Throttle) count(k chat.Address, r Rate, now time.Time) {
	if r.N <= 0 {
		return
	}
	s := append(b.sent[k], now)
	if len(s) > r.N {
		s = append(s[:0], s[len(s)-r.N:]...)
	}
	if _, ok := b.sent[k]; !ok {
		b.sweep(now)
	}
	b.sent[k] = s
}

// sweep forgets what no longer holds anything back, whenever the number of
// things remembered has doubled.
func (b *Throttle) sweep(now time.Time) {
	if len(b.rooms)+len(b.accounts)+len(b.sent) < b.sweepAt {
		return
	}
	defer func() { b.sweepAt = 64 + 2*(len(b.rooms)+len(b.accounts)+len(b.sent)) }()
	for k, t := range b.rooms {
		if !t.After(now) {
			delete(b.rooms, k)
		}
	}
	for k, t := range b.accounts {
		if !t.After(now) {
			delete(b.accounts, k)
		}
	}
	for k, s := range b.sent {
		c := b.ceilings[k.AccountID()]
		per := c.PerChat.Per
		if k == accountScope(k) {
			per = c.PerAccount.Per
		}
		if !s[len(s)-1].Add(per).After(now) {
			delete(b.sent, k)
		}
	}
}
