package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(c string) chat.Address {
	return chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: c}
}

func TestDecide(t *testing.T) {
	moved := at("-100200")
	refused := &chat.SendError{Outcome: chat.Transient, Reason: "flood"}
	wait := &chat.SendError{Outcome: chat.Transient, Reason: "flood", RetryAfter: 149*time.Second + 7*time.Millisecond}
	row := outbox.Row{ID: 7, Role: outbox.Reply, State: outbox.Attempting, Attempts: 2, Created: t0, Msg: chat.Outbound{To: at("1")}}
	with := func(f func(*outbox.Row)) outbox.Row { r := row; f(&r); return r }
	now := t0.Add(time.Hour)
	soon := now.Add(row.Backoff())

	for _, c := range []struct {
		name string
		row  outbox.Row
		err  error
		at   time.Time
		want outbox.Settlement
	}{
		{"success", row, nil, now, outbox.Settlement{State: outbox.Sent}},
		{"success clears MayBeRepeat", with(func(r *outbox.Row) { r.MayBeRepeat = true }), nil, now, outbox.Settlement{State: outbox.Sent}},
		{"refused", row, refused, now, outbox.Settlement{State: outbox.NotSent, NextAttempt: soon, Reason: "flood"}},
		{"refused with a time", row, wait, now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: now.Add(149*time.Second + 7*time.Millisecond), Reason: "flood"}},
		{"refused, wrapped", row, fmt.Errorf("send: %w", wait), now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: now.Add(149*time.Second + 7*time.Millisecond), Reason: "flood"}},
		{"refused keeps MayBeRepeat of an earlier attempt", with(func(r *outbox.Row) { r.MayBeRepeat = true }), refused, now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: soon, Reason: "flood", MayBeRepeat: true}},
		{"refused just before 24 h", row, refused, t0.Add(outbox.MaxRetryTime - 1),
			outbox.Settlement{State: outbox.NotSent, NextAttempt: t0.Add(outbox.MaxRetryTime - 1 + row.Backoff()), Reason: "flood"}},
		{"refused after 24 h", row, refused, t0.Add(outbox.MaxRetryTime), outbox.Settlement{State: outbox.Dead, Reason: "flood; given up after 24 h"}},
		{"rejected", row, &chat.SendError{Outcome: chat.Permanent, Reason: "blocked by the user"}, now,
			outbox.Settlement{State: outbox.Dead, Reason: "blocked by the user"}},
		{"rejected because the chat moved", row, &chat.SendError{Outcome: chat.Permanent, Reason: "moved", MigratedTo: &moved}, now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: now, Reason: "moved", MigratedTo: &moved}},
		{"moved for the fourth time", with(func(r *outbox.Row) { r.Attempts = 4 }), &chat.SendError{Outcome: chat.Transient, Reason: "moved", MigratedTo: &moved}, now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: now.Add(with(func(r *outbox.Row) { r.Attempts = 4 }).Backoff()), Reason: "moved", MigratedTo: &moved}},
		{"moved to its own address", with(func(r *outbox.Row) { r.Msg.To = moved }), &chat.SendError{Outcome: chat.Permanent, Reason: "moved", MigratedTo: &moved}, now,
			outbox.Settlement{State: outbox.Dead, Reason: "moved"}},
		{"uncertain", row, &chat.SendError{Outcome: chat.Uncertain, Reason: "no answer"}, now,
			outbox.Settlement{State: outbox.Uncertain, NextAttempt: now, Reason: "no answer"}},
		{"an error without details", row, errors.New("unexpected EOF"), now,
			outbox.Settlement{State: outbox.Uncertain, NextAttempt: now, Reason: "unexpected EOF"}},
		{"uncertain, at a chat that moved", row, &chat.SendError{Outcome: chat.Uncertain, Reason: "no answer", MigratedTo: &moved}, now,
			outbox.Settlement{State: outbox.Uncertain, NextAttempt: now, Reason: "no answer"}},
		{"died", row, outbox.ErrProcessDied, now, outbox.Settlement{State: outbox.Uncertain, NextAttempt: now, Reason: outbox.ErrProcessDied.Error()}},
		{"asking failed", with(func(r *outbox.Row) { r.State = outbox.Uncertain }), errors.New("no network"), now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: soon, Reason: "no network", MayBeRepeat: true}},
		{"an edit of a deleted message", row, fmt.Errorf("edit: %w", chat.ErrGone), now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: soon, Reason: "edit: chat: message is gone"}},
		{"a deletion of a deleted message", with(func(r *outbox.Row) { r.Role, r.Delete = outbox.Preview, 3 }), fmt.Errorf("delete: %w", chat.ErrGone), now,
			outbox.Settlement{State: outbox.Sent}},
		{"a preview is not retried", with(func(r *outbox.Row) { r.Role = outbox.Preview }), wait, now,
			outbox.Settlement{State: outbox.Dead, Reason: "flood"}},
		{"a refused preview is not visible", with(func(r *outbox.Row) { r.Role, r.MayBeRepeat = outbox.Preview, true }), refused, now,
			outbox.Settlement{State: outbox.Dead, Reason: "flood"}},
		{"a deletion is retried", with(func(r *outbox.Row) { r.Role, r.Delete = outbox.Preview, 3 }), wait, now,
			outbox.Settlement{State: outbox.NotSent, NextAttempt: now.Add(149*time.Second + 7*time.Millisecond), Reason: "flood"}},
		{"a deletion is not retried forever", with(func(r *outbox.Row) { r.Role, r.Delete, r.Attempts = outbox.Preview, 3, 5 }), refused, now,
			outbox.Settlement{State: outbox.Dead, Reason: "flood", MayBeRepeat: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.ID = c.row.ID
			if d := cmp.Diff(c.want, outbox.Decide(c.row, c.err, c.at, outbox.Resend)); d != "" {
				t.Error("settlement differs (-want +got):\n" + d)
			}
		})
	}
}

func TestResolveUncertain(t *testing.T) {
	row := outbox.Row{ID: 9, Role: outbox.Reply, State: outbox.Uncertain, Attempts: 1, Created: t0}
	preview, deletion := row, row
	preview.Role = outbox.Preview
	placeholder := preview
	placeholder.Placeholder = true
	deletion.Role, deletion.Delete = outbox.Preview, 4
	soon := t0.Add(row.Backoff())
	for _, c := range []struct {
		name string
		row  outbox.Row
		p    outbox.UncertainPolicy
		at   time.Time
		want outbox.Settlement
	}{
		{"resend", row, outbox.Resend, t0, outbox.Settlement{State: outbox.NotSent, NextAttempt: soon, MayBeRepeat: true}},
		{"no policy is resend", row, "", t0, outbox.Settlement{State: outbox.NotSent, NextAttempt: soon, MayBeRepeat: true}},
		{"resend after 24 h", row, outbox.Resend, t0.Add(outbox.MaxRetryTime), outbox.Settlement{State: outbox.Dead, MayBeRepeat: true}},
		{"hold", row, outbox.Hold, t0, outbox.Settlement{State: outbox.Uncertain, MayBeRepeat: true}},
		{"hold after 24 h", row, outbox.Hold, t0.Add(outbox.MaxRetryTime), outbox.Settlement{State: outbox.Uncertain, MayBeRepeat: true}},
		{"drop", row, outbox.Drop, t0, outbox.Settlement{State: outbox.Dead}},
		{"preview", preview, outbox.Resend, t0, outbox.Settlement{State: outbox.Dead, MayBeRepeat: true}},
		{"placeholder", placeholder, outbox.Resend, t0, outbox.Settlement{State: outbox.Dead}},
		{"deletion", deletion, outbox.Drop, t0, outbox.Settlement{State: outbox.NotSent, NextAttempt: soon}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outbox.ResolveUncertain(c.row, c.at, c.p)
			if got.Reason == "" {
				t.Error("the settlement has no reason")
			}
			got.Reason, c.want.ID = "", c.row.ID
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error("settlement differs (-want +got):\n" + d)
			}
		})
	}
}

func TestDecideBoundsReason(t *testing.T) {
	row := outbox.Row{State: outbox.Attempting, Created: t0}
	for _, text := range []string{strings.Repeat("ä", 400), strings.Repeat("x", 10_000), "bad \xff bytes"} {
		got := outbox.Decide(row, &chat.SendError{Outcome: chat.Transient, Reason: text}, t0.Add(outbox.MaxRetryTime), outbox.Resend).Reason
		if len(got) > 500 || !utf8.ValidString(got) {
			t.Errorf("reason of %d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
}

func TestBackoff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 9: 256 * time.Second,
		10: 5 * time.Minute, 64: 5 * time.Minute, 1 << 30: 5 * time.Minute,
	} {
		if got := outbox.Backoff(attempts, 0); got != want/2 {
			t.Errorf("Backoff(%d, 0) = %v, want %v", attempts, got, want/2)
		}
		if got := outbox.Backoff(attempts, 0.9999999); got > want || got < want-want/100 {
			t.Errorf("Backoff(%d, ~1) = %v, want just under %v", attempts, got, want)
		}
	}
	rows := make(map[time.Duration]bool)
	for id := range outbox.ID(100) {
		r := outbox.Row{ID: id, Attempts: 5}
		first, again := r.Backoff(), r.Backoff()
		if first != again {
			t.Fatal("the backoff of one row changes")
		}
		rows[first] = true
	}
	if len(rows) < 95 {
		t.Errorf("100 rows wait for only %d different times: no jitter", len(rows))
	}
}

func TestAddRepeatNotice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, 200).Draw(t, "text")
		in := chat.RichText{Text: text}
		if n := len(text); n > 0 {
			a := rapid.IntRange(0, n).Draw(t, "start")
			b := rapid.IntRange(a, n).Draw(t, "end")
			in.Spans = []chat.Span{{Start: 0, End: n, Style: chat.BlockQuote}, {Start: a, End: b, Style: chat.Link, Arg: "u"}}
		}
		spans := append([]chat.Span(nil), in.Spans...)
		out := outbox.AddRepeatNotice(in, outbox.RepeatNotice)
		if !strings.HasPrefix(out.Text, outbox.RepeatNotice) || !strings.HasSuffix(out.Text, text) {
			t.Fatalf("got %q of %q", out.Text, text)
		}
		for i, s := range out.Spans {
			if got, want := out.Text[s.Start:s.End], text[spans[i].Start:spans[i].End]; got != want {
				t.Fatalf("span %d covers %q, was %q", i, got, want)
			}
			if s.Style == chat.BlockQuote && s.Start > 0 && out.Text[s.Start-1] != '\n' {
				t.Fatal("a block no longer starts a line")
			}
		}
		if d := cmp.Diff(spans, in.Spans); d != "" {
			t.Fatal("the original was changed:\n" + d)
		}
		if d := cmp.Diff(out, outbox.AddRepeatNotice(out, outbox.RepeatNotice)); d != "" {
			t.Fatal("added twice:\n" + d)
		}
	})
}
