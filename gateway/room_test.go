package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
)

// A room is a platform in memory, with one account. It outlives the daemons
// that connect to it, and keeps what a person sees.
type room struct {
	mu     sync.Mutex // guards what follows
	began  time.Time
	seen   []message
	log    []event
	faults []fault
	next   int
	typing int
	ahead  time.Duration // of our clock

	buttons [][]chat.Button // of the last message that had any
	answers []string        // to presses
	dropped []string        // keys of messages that get no answer
	marked  []string        // reactions, in order
	thread  []chat.Quote    // what was said in every thread
	deaf    error           // why it cannot tell what was said
}

func (r *room) AnswerCallback(ctx context.Context, press chat.Inbound, text string) error {
	if err := pause(ctx, r.take("answer").delay); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, text)
	return nil
}

func (r *room) Dismiss(in chat.Inbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped = append(r.dropped, in.IdempotencyKey)
}

func (r *room) React(_ context.Context, to chat.Address, id string, is chat.Reaction) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked = append(r.marked, id+" "+string(is))
	return nil
}

func (r *room) MessagesBefore(_ context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !since.IsZero() {
		return nil, r.deaf
	}
	return r.thread, r.deaf
}

type event struct {
	at   time.Duration // since the room began
	what string
}

type message struct {
	id, text, re string
	to           chat.Address
	gone         bool
	edits        int
}

// A fault hits the next call of op ("send", "edit", "delete", "answer").
type fault struct {
	op     string
	before error         // returned without any effect
	after  error         // returned although the call had its effect
	delay  time.Duration // before anything happens
}

func newRoom() *room { return &room{began: time.Now()} }

func (r *room) fail(f ...fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f...)
}

func (r *room) take(op string) fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, f := range r.faults {
		if f.op == op {
			r.faults = slices.Delete(r.faults, i, i+1)
			return f
		}
	}
	return fault{}
}

func (r *room) note(format string, args ...any) {
	r.log = append(r.log, event{time.Since(r.began).Truncate(100 * time.Millisecond).Round(time.Millisecond), fmt.Sprintf(format, args...)})
}

func (r *room) Run(ctx context.Context, _ chat.Sink) error { <-ctx.Done(); return nil }

func (r *room) Health() chat.Health { return chat.Health{State: chat.Connected, ClockAhead: r.ahead} }

func (r *room) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 4096, TextSize: markup.UTF16, CaptionLimit: 1024, EditInterval: time.Second}
}

func (r *room) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	f := r.take("send")
	if err := pause(ctx, f.delay); err != nil {
		return chat.Receipt{}, err
	}
	if f.before != nil {
		return chat.Receipt{}, f.before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	id := fmt.Sprint(100 + r.next)
	if m.File != nil {
		m.Text = chat.PlainText("file " + m.File.Name)
	}
	if m.Buttons != nil {
		r.buttons = m.Buttons
	}
	r.seen = append(r.seen, message{id: id, text: m.Text.Text, to: m.To, re: m.ReplyTo})
	re := ""
	if m.ReplyTo != "" {
		re = " (re " + m.ReplyTo + ")"
	}
	r.note("%s < %s%s", m.To.Chat, oneLine(m.Text.Text), re)
	if f.after != nil {
		return chat.Receipt{}, f.after
	}
	return chat.Receipt{ID: id}, nil
}

func (r *room) Edit(ctx context.Context, id string, m chat.Outbound) error {
	f := r.take("edit")
	if err := pause(ctx, f.delay); err != nil {
		return err
	}
	if f.before != nil {
		return f.before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.seen {
		if r.seen[i].id == id && !r.seen[i].gone {
			if r.seen[i].text != m.Text.Text {
				r.seen[i].text = m.Text.Text
				r.seen[i].edits++
				r.note("%s ~ %s", m.To.Chat, oneLine(m.Text.Text))
			}
			return f.after
		}
	}
	return fmt.Errorf("edit %s: %w", id, chat.ErrGone)
}

func (r *room) Delete(ctx context.Context, to chat.Address, id string) error {
	f := r.take("delete")
	if err := pause(ctx, f.delay); err != nil {
		return err
	}
	if f.before != nil {
		return f.before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.seen {
		if r.seen[i].id == id {
			r.seen[i].gone = true
			r.note("%s - %s", to.Chat, oneLine(r.seen[i].text))
		}
	}
	return f.after
}

func (r *room) Typing(context.Context, chat.Address) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.typing++
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " | ") }

// visible is what a person sees now in one chat, in order; "" is all chats.
func (r *room) visible(in string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, m := range r.seen {
		if !m.gone && (in == "" || m.to.Chat == in) {
			out = append(out, m.text)
		}
	}
	return out
}

// button is what the nth of the newest buttons holds.
func (r *room) button(t *testing.T, nth string) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := strconv.Atoi(nth)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.buttons {
		for _, b := range row {
			if n--; n == 0 {
				return b.Data
			}
		}
	}
	t.Fatalf("there is no button %s among %v", nth, r.buttons)
	return ""
}

// history is all that happened, line by line.
func (r *room) history() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.log {
		fmt.Fprintf(&b, "%8s %s\n", e.at, e.what)
	}
	return b.String()
}
