package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

func TestThrottleUnlimitedByDefault(t *testing.T) {
	b := outbox.NewThrottle(nil)
	for i := range 10_000 {
		if w := b.Reserve(at(fmt.Sprint(i%3)), t0); w != 0 {
			t.Fatalf("send %d waits %v though no platform has asked", i, w)
		}
	}
}

func TestThrottleHonorsRetryAfter(t *testing.T) {
	const after = 149*time.Second + 13*time.Nanosecond
	thread := at("1")
	thread.Kind, thread.Thread = chat.Thread, "9"
	other := chat.Address{Platform: chat.Telegram, Account: "second", Kind: chat.Group, Chat: "1"}
	discord := chat.Address{Platform: chat.Discord, Kind: chat.Group, Chat: "1"}
	for _, c := range []struct {
		name   string
		global bool
		held   []chat.Address
		free   []chat.Address
	}{
		{"chat", false, []chat.Address{at("1"), thread}, []chat.Address{at("2"), other, discord}},
		{"account", true, []chat.Address{at("1"), at("2"), thread}, []chat.Address{other, discord}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := outbox.NewThrottle(nil)
			b.RecordRetryAfter(at("1"), after, c.global, t0)
			b.RecordRetryAfter(at("1"), time.Second, c.global, t0) // a shorter time has no effect
			b.RecordRetryAfter(at("1"), 0, c.global, t0)           // no time
			for _, a := range c.held {
				if w := b.Delay(a, t0); w != after {
					t.Errorf("%v waits %v, want %v", a, w, after)
				}
				if w := b.Reserve(a, t0.Add(after-1)); w != 1 {
					t.Errorf("%v waits %v a nanosecond before, want 1ns", a, w)
				}
				if w := b.Reserve(a, t0.Add(after)); w != 0 {
					t.Errorf("%v still waits %v at the time named", a, w)
				}
			}
			for _, a := range c.free {
				if w := b.Delay(a, t0); w != 0 {
					t.Errorf("%v waits %v for the limit of another chat or account", a, w)
				}
			}
		})
	}
}

func TestThrottleSweepsOldEntries(t *testing.T) {
	b := outbox.NewThrottle(nil)
	now := t0
	for i := range 100_000 {
		now = now.Add(time.Second)
		b.RecordRetryAfter(at(fmt.Sprint(i)), 10*time.Second, false, now)
	}
	if n := b.Remembered(); n > 300 {
		t.Errorf("%d chats are remembered, of which 10 are delayed", n)
	}
}

// No interval has more sends than the limit allows, and a send is delayed only if
// its interval is full.
func TestThrottleRateLimitIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		account := outbox.Rate{N: rapid.IntRange(0, 6).Draw(t, "account"), Per: 10 * time.Second}
		room := outbox.Rate{N: rapid.IntRange(0, 4).Draw(t, "room"), Per: 15 * time.Second}
		b := outbox.NewThrottle(map[chat.Account]outbox.RateLimit{{Platform: chat.Telegram}: {PerAccount: account, PerChat: room}})
		sent := make(map[string][]time.Time)
		inWindow := func(k string, r outbox.Rate, now time.Time) (n int) {
			for _, s := range sent[k] {
				if now.Sub(s) < r.Per {
					n++
				}
			}
			return n
		}
		now := t0
		for range rapid.IntRange(1, 80).Draw(t, "sends") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			chat := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "room")
			full := account.N > 0 && inWindow("", account, now) >= account.N || room.N > 0 && inWindow(chat, room, now) >= room.N
			wait := b.Reserve(at(chat), now)
			if full != (wait > 0) {
				t.Fatalf("window full: %v, but the send waits %v", full, wait)
			}
			if wait > 0 {
				if w := b.Delay(at(chat), now.Add(wait)); w != 0 {
					t.Fatalf("told to wait %v, then to wait %v more", wait, w)
				}
				continue
			}
			sent[""] = append(sent[""], now)
			sent[chat] = append(sent[chat], now)
		}
	})
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]outbox.Rate{
		"": {}, "20/1m": {20, time.Minute}, "30/s": {30, time.Second}, " 1 / 500ms ": {1, 500 * time.Millisecond}, "5/m": {5, time.Minute},
	} {
		if got, err := outbox.ParseRate(s); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"20", "/1m", "0/1m", "-1/1m", "20/", "20/0s", "20/-1s", "20/fortnight", "99999/1s", "1/48h", "x/1m"} {
		if got, err := outbox.ParseRate(s); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", s, got)
		}
	}
}
