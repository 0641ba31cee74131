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
	"unicode/utf16"

	"hermesd/gateway/chat"
)

// A fakeAdapter is a platform in memory, with one account. It outlives the daemons that
// use it and records what users see.
type fakeAdapter struct {
	mu          sync.Mutex // guards the fields below
	createdAt   time.Time
	messages    []message
	events      []event
	faults      []fault
	sendCount   int
	typingCalls int
	clockAhead  time.Duration // of the host's clock

	buttons         [][]chat.Button // of the newest message with buttons
	callbackAnswers []string        // to button presses
	dismissed       []string        // idempotency keys of dismissed messages
	reactions       []string        // reactions, in order
	thread          []chat.Quote    // the history of every thread
	historyErr      error           // returned by MessagesBefore
}

func (r *fakeAdapter) AnswerCallback(ctx context.Context, press chat.Inbound, text string) error {
	if err := sleep(ctx, r.takeFault("answer").delay); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callbackAnswers = append(r.callbackAnswers, text)
	return nil
}

func (r *fakeAdapter) Dismiss(in chat.Inbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dismissed = append(r.dismissed, in.IdempotencyKey)
}

func (r *fakeAdapter) React(_ context.Context, to chat.Address, id string, is chat.Reaction) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reactions = append(r.reactions, id+" "+string(is))
	return nil
}

func (r *fakeAdapter) MessagesBefore(_ context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !since.IsZero() {
		return nil, r.historyErr
	}
	return r.thread, r.historyErr
}

type event struct {
	at   time.Duration // since createdAt
	text string
}

type message struct {
	id, text, replyTo string
	to                chat.Address
	deleted           bool
	edits             int
}

// A fault affects the next call of op ("send", "edit", "delete", "answer", "typing").
type fault struct {
	op     string
	before error         // returned without any effect
	after  error         // returned although the call had its effect
	delay  time.Duration // before anything happens
}

func newFakeAdapter() *fakeAdapter { return &fakeAdapter{createdAt: time.Now()} }

func (r *fakeAdapter) addFaults(f ...fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f...)
}

func (r *fakeAdapter) takeFault(op string) fault {
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

func (r *fakeAdapter) logf(format string, args ...any) {
	r.events = append(r.events, event{time.Since(r.createdAt).Truncate(100 * time.Millisecond).Round(time.Millisecond), fmt.Sprintf(format, args...)})
}

func (r *fakeAdapter) Run(ctx context.Context, _ chat.Sink) error { <-ctx.Done(); return nil }

func (r *fakeAdapter) Health() chat.Health {
	return chat.Health{State: chat.Connected, ClockAhead: r.clockAhead}
}

func (r *fakeAdapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 4096, TextSize: func(r chat.RichText) int { return len(utf16.Encode([]rune(r.Text))) }, EditInterval: time.Second}
}

func (r *fakeAdapter) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	f := r.takeFault("send")
	if err := sleep(ctx, f.delay); err != nil {
		return chat.Receipt{}, err
	}
	if f.before != nil {
		return chat.Receipt{}, f.before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sendCount++
	id := fmt.Sprint(100 + r.sendCount)
	if m.File != nil {
		m.Text = chat.PlainText("file " + m.File.Name)
	}
	if m.Buttons != nil {
		r.buttons = m.Buttons
	}
	r.messages = append(r.messages, message{id: id, text: m.Text.Text, to: m.To, replyTo: m.ReplyTo})
	re := ""
	if m.ReplyTo != "" {
		re = " (re " + m.ReplyTo + ")"
	}
	r.logf("%s < %s%s", m.To.Chat, oneLine(m.Text.Text), re)
	if f.after != nil {
		return chat.Receipt{}, f.after
	}
	return chat.Receipt{ID: id}, nil
}

func (r *fakeAdapter) Edit(ctx context.Context, id string, m chat.Outbound) error {
	f := r.takeFault("edit")
	if err := sleep(ctx, f.delay); err != nil {
		return err
	}
	if f.before != nil {
		return f.before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.messages {
		if r.messages[i].id == id && !r.messages[i].deleted {
			if r.messages[i].text != m.Text.Text {
				r.messages[i].text = m.Text.Text
				r.messages[i].edits++
				r.logf("%s ~ %s", m.To.Chat, oneLine(m.Text.Text))
			}
			return f.after
		}
	}
	return fmt.Errorf("edit %s: %w", id, chat.ErrGone)
}

func (r *fakeAdapter) Delete(ctx context.Context, to chat.Address, id string) error {
	f := r.takeFault("delete")
	if err := sleep(ctx, f.delay); err != nil {
		return err
	}
	if f.before != nil {
		return f.before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.messages {
		if r.messages[i].id == id {
			r.messages[i].deleted = true
			r.logf("%s - %s", to.Chat, oneLine(r.messages[i].text))
		}
	}
	return f.after
}

func (r *fakeAdapter) Typing(ctx context.Context, _ chat.Address) error {
	if err := sleep(ctx, r.takeFault("typing").delay); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.typingCalls++
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
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

// visible returns the texts that are visible in one chat, in order; "" is all chats.
func (r *fakeAdapter) visible(in string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, m := range r.messages {
		if !m.deleted && (in == "" || m.to.Chat == in) {
			out = append(out, m.text)
		}
	}
	return out
}

// buttonData returns the data of the nth of the newest buttons.
func (r *fakeAdapter) buttonData(t *testing.T, nth string) string {
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

// history returns all recorded events, one line each.
func (r *fakeAdapter) history() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.events {
		fmt.Fprintf(&b, "%8s %s\n", e.at, e.text)
	}
	return b.String()
}
