package control_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

func TestStoredAnswer(t *testing.T) {
	row := func(as chat.Purpose, text string) outbox.Row {
		return outbox.Row{Msg: chat.Outbound{Text: chat.PlainText(text), ReplyContext: &chat.ReplyContext{Purpose: as}}}
	}
	rows := []outbox.Row{{}, row(chat.PurposePreview, "the be"), row(chat.PurposeNotice, "by the way"), row(chat.PurposeAnswer, "the beginning"), {Delete: 1}}
	for name, c := range map[string]struct {
		chain     store.MessageHistory
		text, why string
		ended     bool
	}{
		"runs":        {store.MessageHistory{Rows: rows[:2]}, "", "", false},
		"answered":    {store.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Replied}}, Rows: rows}, "the beginning", "", true},
		"interrupted": {store.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Replied, MergedInto: 7}}, Rows: rows}, "", "a newer message took its place, and what it says is answered there", true},
		"failed": {
			store.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Failed, Reason: "short."}}, Rows: []outbox.Row{row(chat.PurposeFailure, "⚠️ In full.")}},
			"", "⚠️ In full", true,
		},
		"stopped": {store.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Cancelled, Reason: "/stop"}}}, "", "cancelled (/stop)", true},
		"ignored": {store.MessageHistory{Entry: inbox.Entry{Outcome: &inbox.Outcome{Result: inbox.Silent, Reason: "no_sender"}}}, "", "silent (no_sender)", true},
	} {
		text, why, ended := control.StoredAnswer(c.chain)
		if text != c.text || why != c.why || ended != c.ended {
			t.Errorf("%s: %q, %q, %v", name, text, why, ended)
		}
	}
}

func TestFormatHistory(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	trace, err := json.Marshal(store.Trace{Resumed: true, Tools: []string{"clock"}, Calls: []store.ModelCall{{Provider: "p", Model: "m", Took: time.Second}}, Error: "late"})
	if err != nil {
		t.Fatal(err)
	}
	e := inbox.Entry{
		ID: 12, Inbound: chat.Inbound{ID: "1", Sender: chat.Person{ID: "7"}, Address: chat.Address{Platform: chat.Telegram, Chat: "7"}, SentAt: at},
		Accepted: at, Turn: "t1", Crashes: 1, Outcome: &inbox.Outcome{Result: inbox.Failed, Reason: "late"},
	}
	got := control.FormatHistory(store.MessageHistory{Entry: e, Trace: trace, Rows: []outbox.Row{{ID: 3, Role: outbox.Reply, State: outbox.Dead, Attempts: 2, Reason: "gone"}}})
	want := `m12  message 1 from 7 (telegram:7) at 2026-01-02 03:04:05.000
  accepted  2026-01-02 03:04:05.000
  turn      t1
  crashes   1
  resumed   after a restart
  model     p/m, 1s, 0 tokens in, 0 cached, 0 out
  tool      clock
  error     late
  reply     o3 dead, attempts: 2, gone
  outcome   failed(late)
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	for outcome, want := range map[*inbox.Outcome]string{nil: "none yet: waiting\n", {Result: inbox.Replied, MergedInto: 7}: "replied(with m7)\n", {Result: inbox.Replied}: "replied\n"} {
		if got := control.FormatHistory(store.MessageHistory{Entry: inbox.Entry{State: inbox.Waiting, Outcome: outcome}}); !strings.HasSuffix(got, "  outcome   "+want) {
			t.Errorf("%v: %s", outcome, got)
		}
	}
}
