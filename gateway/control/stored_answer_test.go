package control_test

import (
	"testing"

	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

func TestStoredAnswer(t *testing.T) {
	row := func(as chat.Purpose, text string) outbox.Row {
		return outbox.Row{Msg: chat.Outbound{Text: chat.PlainText(text), ReplyContext: &chat.ReplyContext{Purpose: as}}}
	}
	rows := []outbox.Row{{}, row(chat.PurposePreview, "the be"), row(chat.PurposeNotice, "by the way"), row(chat.PurposeAnswer, "the beginning"), {Delete: 1}}
	for name, c := range map[string]struct {
		chain     inbox.MessageHistory
		text, why string
		ended     bool
	}{
		"runs":        {inbox.MessageHistory{Rows: rows[:2]}, "", "", false},
		"answered":    {inbox.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Replied}}, Rows: rows}, "the beginning", "", true},
		"interrupted": {inbox.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Replied, MergedInto: 7}}, Rows: rows}, "", "a newer message took its place, and what it says is answered there", true},
		"failed": {
			inbox.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Failed, Reason: "short."}}, Rows: []outbox.Row{row(chat.PurposeFailure, "⚠️ In full.")}},
			"", "⚠️ In full", true,
		},
		"stopped": {inbox.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Cancelled, Reason: "/stop"}}}, "", "cancelled (/stop)", true},
		"ignored": {inbox.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Silent, Reason: "no_sender"}}}, "", "silent (no_sender)", true},
	} {
		text, why, ended := control.StoredAnswer(c.chain)
		if text != c.text || why != c.why || ended != c.ended {
			t.Errorf("%s: %q, %q, %v", name, text, why, ended)
		}
	}
}
