package main

import (
	"strings"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
	"hermesd/gateway/outbox"
)

// A dead letter is shown in full to the operator who decides about it.
func TestAMessageIsShownInFull(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("A long line, word by word. ", 400) + "\n\nSee [the page](https://example.org/x)."
	got := rowText(outbox.Row{
		ID: 12, Role: outbox.Reply, Turn: "t7", State: outbox.Dead, Attempts: 3, Created: now.Add(-2 * time.Hour), Reason: "the bot was blocked",
		Msg: chat.Outbound{
			To: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}, Text: markup.Parse(long),
			File: &chat.File{Name: "a.pdf", MIME: "application/pdf", Size: 2048}, Buttons: [][]chat.Button{{{Label: "Yes", Data: "/approve ab"}}},
		},
	}, now)
	for _, want := range []string{
		"o12       reply to telegram:7: dead", "created   2 h ago, tried 3 times", "problem   the bot was blocked", "turn      t7", "file      a.pdf, application/pdf, 2.0 KiB",
		"button    Yes: /approve ab", strings.TrimSpace(strings.Repeat("A long line, word by word. ", 400)), "[the page](https://example.org/x)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%.600s", want, got)
		}
	}
	if gone := rowText(outbox.Row{ID: 1, State: outbox.Sent, RedactWhenDone: true}, now); !strings.Contains(gone, "What it said is deleted.") {
		t.Error(gone)
	}
}
