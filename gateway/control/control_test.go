package control_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

func TestStatus(t *testing.T) {
	w := newHarness(t)
	w.accept("7")
	w.parts.Options.Mode, w.parts.Options.Caching = inbox.Queue, "Prompt caching: off"
	s := control.New(w.parts).Status()
	if s.Version != "1.2.3" || s.Model != "demo" || s.Mode != "queue" || s.Caching != "Prompt caching: off" || s.Paused || time.Since(s.Started) > time.Minute {
		t.Errorf("%+v", s)
	}
	if s.Store.Waiting != 1 || s.BackgroundCompactions.Started != 3 {
		t.Errorf("%+v", s)
	}
	if len(s.Accounts) != 2 || s.Accounts[0].Platform != chat.Slack || s.Accounts[1].State != chat.Connected || !s.Accounts[0].Since.IsZero() {
		t.Errorf("accounts %+v", s.Accounts)
	}
	raw, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(raw), `"unknown_prices":[]`) {
		t.Errorf("%s, %v", raw, err)
	}
}

// A pause is on disk and holds for the next process; its end wakes what has waited.
func TestPause(t *testing.T) {
	w := newHarness(t)
	e := w.accept("7")
	ctl, pause := control.New(w.parts), w.parts.Runtime.Pause
	if pause.Paused() || pause.Blocks(e.Lane) {
		t.Error("paused from the start")
	}
	if err := ctl.Pause(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	next := control.NewPause(w.store, "", "")
	since, err := next.Load(t.Context())
	if _, parseErr := time.Parse(time.RFC3339, string(since)); err != nil || parseErr != nil || !next.Blocks(e.Lane) || !ctl.Status().Paused {
		t.Errorf("after a restart: %q, %v, %v", since, err, next.Paused())
	}
	if got := w.wokenLanes(); len(got) != 0 {
		t.Errorf("woken: %v", got)
	}
	if err := ctl.Pause(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := w.wokenLanes(); !slices.Equal(got, []inbox.Lane{e.Lane}) || pause.Blocks(e.Lane) {
		t.Errorf("woken: %v", got)
	}
	if since, err := control.NewPause(w.store, "", "").Load(t.Context()); err != nil || since != nil {
		t.Errorf("it goes on since %s, %v", since, err)
	}
}

func TestPauseExcludesOtherPlatforms(t *testing.T) {
	w := newHarness(t)
	l := w.accept("7").Lane
	for only, want := range map[chat.Platform]bool{"": false, chat.Telegram: false, chat.Console: true} {
		p := control.NewPause(w.store, "", only)
		if p.Excludes(l) != want || p.Blocks(l) != want || p.Paused() {
			t.Errorf("only %q: excludes %v, blocks %v", only, p.Excludes(l), p.Blocks(l))
		}
	}
}

// The chat that requested a restart is notified once.
func TestRestartIsAnnouncedOnce(t *testing.T) {
	w := newHarness(t)
	from := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}
	control.New(w.parts).Restart(from)
	if w.host.restarts != 1 {
		t.Fatalf("%d restarts", w.host.restarts)
	}
	for range 2 {
		if err := control.New(w.parts).AnnounceRestart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rows, _, err := w.store.Outbox(t.Context(), outbox.Query{Sent: true})
	if err != nil || len(rows) != 1 || rows[0].Msg.To != from || rows[0].Msg.Text.Text != "I am back: hermesd 1.2.3." {
		t.Errorf("%+v, %v", rows, err)
	}
}
