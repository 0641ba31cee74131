package telegram

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

const (
	maxPoll       = 50 * time.Second
	maxAnswer     = 4 << 20 // bytes of updates in one answer
	conflictPause = 3 * time.Second
	busyPolling   = 3 * time.Second
	veryBusy      = 500 * time.Millisecond
)

// A poll is a waiting getUpdates.
type poll struct {
	wake chan struct{}
	end  chan *apiError
}

func (p *poll) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// A pollMark holds the last poll, for the protection against busy polling.
type pollMark struct {
	offset int
	start  time.Time
}

// conflictLocked returns a 409. If the last one was less than three seconds
// ago, the answer is delayed by three seconds, as on the real server.
func (b *Bot) conflictLocked(what string) *apiError {
	e := conflict(what)
	now := time.Now()
	if now.Before(b.conflicts) {
		e.delay = conflictPause
	} else {
		b.conflicts = now.Add(conflictPause)
	}
	return e
}

// abortPollLocked ends the waiting poll.
func (b *Bot) abortPollLocked(what string) {
	if b.poll != nil {
		b.poll.end <- b.conflictLocked(what)
		b.poll = nil
	}
}

const terminated = "terminated by other getUpdates request; make sure that only one bot instance is running"

// getUpdates waits for updates; the caller must not hold the lock.
func (c *call) getUpdates() (any, *apiError) {
	s, b := c.s, c.bot
	s.mu.Lock()
	if b.hook != nil {
		err := b.conflictLocked("can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
		s.mu.Unlock()
		return nil, err
	}
	offset := c.int("offset", 0)
	limit := min(max(c.int("limit", 100), 1), 100)
	wait := min(max(time.Duration(c.int("timeout", 0))*time.Second, 0), maxPoll)
	b.allowLocked(c.str("allowed_updates"))
	now := time.Now()
	if mark := b.lastPoll; !s.opts.NoPollGuard && !mark.start.IsZero() && mark.offset == offset {
		if now.Before(mark.start.Add(busyPolling)) {
			wait = max(wait, busyPolling)
		}
		if now.Before(mark.start.Add(veryBusy)) {
			limit = 1
		}
	}
	b.lastPoll = pollMark{offset, now}
	got := b.readLocked(offset, limit)
	if len(got) > 0 || wait == 0 {
		answer := updatesAnswer(got) // encode before Shuffle can change them
		s.mu.Unlock()
		return answer, nil
	}
	b.abortPollLocked(terminated)
	p := &poll{wake: make(chan struct{}, 1), end: make(chan *apiError, 1)}
	b.poll = p
	s.mu.Unlock()
	return c.await(p, wait, func() []*item { return b.readLocked(max(offset, 0), limit) })
}

// await returns updates, nothing after wait, or a conflict.
func (c *call) await(p *poll, wait time.Duration, read func() []*item) (any, *apiError) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		over := false
		select {
		case <-p.wake:
		case <-timer.C:
			over = true
		case err := <-p.end:
			return nil, err
		case <-c.ctx.Done():
			over = true
		}
		c.s.mu.Lock()
		if c.bot.poll != p { // a conflict arrived at the same time
			c.s.mu.Unlock()
			return nil, <-p.end
		}
		var got []*item
		if c.ctx.Err() == nil {
			got = read()
		}
		if over || len(got) > 0 {
			c.bot.poll = nil
			answer := updatesAnswer(got)
			c.s.mu.Unlock()
			return answer, nil
		}
		c.s.mu.Unlock()
	}
}

// readLocked confirms and reads updates and records both.
func (b *Bot) readLocked(offset, limit int) []*item {
	now := time.Now()
	b.expireLocked(now)
	if offset < 0 {
		b.s.recorder.settled(now, true, offersOf(b.queue.keepLast(-offset))...)
	}
	got, confirmed := b.queue.read(offset, limit)
	b.s.recorder.settled(now, true, offersOf(confirmed)...)
	size := 0
	for i, it := range got {
		if size += 50 + len(it.body); size > maxAnswer && i > 0 {
			got = got[:i]
			break
		}
	}
	b.s.recorder.delivered(now, offersOf(got)...)
	return got
}

// allowLocked sets allowed_updates. If the parameter is missing or invalid, the
// previous value stays.
func (b *Bot) allowLocked(raw string) {
	var kinds []string
	if raw == "" || json.Unmarshal([]byte(raw), &kinds) != nil {
		return
	}
	var known []string
	for _, k := range kinds {
		if k = strings.ToLower(k); slices.Contains(updateKinds, k) {
			known = append(known, k)
		}
	}
	b.allowed = known // an empty list restores the default
}

var updateKinds = []string{
	"message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "my_chat_member",
	"chat_member", "chat_join_request", "message_reaction", "message_reaction_count", "inline_query",
	"chosen_inline_result", "shipping_query", "pre_checkout_query", "poll", "poll_answer", "chat_boost",
	"removed_chat_boost", "business_connection", "business_message", "edited_business_message",
	"deleted_business_messages", "purchased_paid_media",
}

// updatesAnswer builds the array without package json, so that raw updates stay
// as they are.
func updatesAnswer(items []*item) rawResult {
	out := []byte{'['}
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, it.encode()...)
	}
	return append(out, ']')
}
