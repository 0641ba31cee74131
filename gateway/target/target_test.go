package target_test

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/adapters/telegram"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

// A platform is an adapter that records what is sent.
type platform struct {
	raw bool // its clients render Markdown

	mu   sync.Mutex // guards sent
	sent []string   // "address text"
}

func (p *platform) Run(context.Context, chat.Sink) error { return nil }
func (p *platform) Health() chat.Health                  { return chat.Health{State: chat.Connected} }

func (p *platform) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 4096, TextSize: func(r chat.RichText) int { return len(utf16.Encode([]rune(r.Text))) }, RawMarkdown: p.raw}
}

func (p *platform) Send(_ context.Context, m chat.Outbound) (chat.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := m.Text.Text
	if m.File != nil {
		text = "file " + m.File.Name
	}
	p.sent = append(p.sent, m.To.String()+" "+text)
	return chat.Receipt{ID: fmt.Sprint(len(p.sent))}, nil
}

// take returns what was sent since the last call, sorted.
func (p *platform) take() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := slices.Sorted(slices.Values(p.sent))
	p.sent = nil
	return sent
}

// A harness is a directory with a real store and three platforms: telegram, discord with
// two accounts, and the HTTP API, whose clients fetch answers.
type harness struct {
	*target.Directory
	t       *testing.T
	parts   target.Parts
	store   *bolt.Store
	moves   *chatmigration.Registry
	sending *platform // of all accounts
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	store, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	moves, err := chatmigration.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, store: store, moves: moves, sending: &platform{}}
	connected := accounts.New(accounts.Options{Log: zap.NewNop(), Profiles: chat.ProfilesOf(telegram.Profile())})
	connected.Add(chat.Account{Platform: chat.Telegram}, h.sending)
	connected.Add(chat.Account{Platform: chat.Discord, Name: "a"}, h.sending)
	connected.Add(chat.Account{Platform: chat.Discord, Name: "b"}, h.sending)
	connected.Add(chat.Account{Platform: chat.HTTP}, &platform{raw: true})
	out := delivery.New(delivery.Options{Store: store, Accounts: connected, Masker: new(secret.Masker), Settled: func(outbox.Row, outbox.Settlement) {}, Observe: func(observe.Event) {}, Log: zap.NewNop()})
	t.Cleanup(func() {
		if err := out.Close(time.Minute); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	h.parts = target.Parts{Store: store, Accounts: connected, Delivery: out, Moves: moves}
	h.Directory = h.reopen()
	return h
}

// reopen returns the Directory of the next process.
func (h *harness) reopen() *target.Directory {
	h.t.Helper()
	d := target.New(h.parts, target.Options{Location: time.UTC, Log: zap.NewNop()})
	if err := d.Load(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return d
}

// addSession stores the session of a chat called name.
func (h *harness) addSession(at chat.Address, name string) {
	h.t.Helper()
	key := session.KeyFor("", at, "7", session.KeyPolicy{})
	taken, err := h.store.Accept(h.t.Context(), []store.Admission{{Claim: true, Entry: inbox.Entry{
		Lane: inbox.LaneOf(key), Session: key, State: inbox.Waiting,
		Inbound: chat.Inbound{IdempotencyKey: string(key), ID: "1", Kind: chat.Message, Address: at},
	}}})
	if err != nil {
		h.t.Fatal(err)
	}
	rec := session.Record{ID: session.ID("s-" + string(key)), Key: key, Address: at, Name: name, Created: time.Now(), Updated: time.Now()}
	_, err = h.store.CommitTurn(h.t.Context(), *taken[0].Claim, store.Turn{
		End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}, Create: &store.Creation{Record: rec, Prompt: []byte("{}")}, Session: rec,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func dm(id string) chat.Address {
	return chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: id}
}

func group(id string) chat.Address {
	return chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: id}
}

var channel = chat.Address{Platform: chat.Discord, Account: "b", Kind: chat.Group, Chat: "C"}

func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		topic := group("-1")
		topic.Thread = "5"
		h.addSession(group("-1"), "#news")
		h.addSession(topic, "topic")
		h.addSession(group("-2"), "News")
		h.addSession(group("-3"), "cats")
		h.addSession(channel, "lounge")
		h.SetConfigured(map[chat.Platform]chat.Address{chat.Telegram: group("-9"), chat.Discord: channel})
		if err := h.moves.Add(t.Context(), group("-4"), group("-44")); err != nil {
			t.Fatal(err)
		}
		unknown := group("-5")
		unknown.Thread = "6"
		for _, tt := range []struct {
			text   string
			origin chat.Address
			want   []chat.Address
			err    string
		}{
			{text: ""},
			{text: "local"},
			{text: "origin", origin: dm("7"), want: []chat.Address{dm("7")}},
			{text: "origin", err: "origin is nowhere"},
			{text: "origin", origin: chat.Address{Platform: chat.Cron, Chat: "job"}, err: "origin is nowhere"},
			{text: "telegram", want: []chat.Address{group("-9")}},
			{text: "all", want: []chat.Address{channel, group("-9")}},
			{text: " telegram , origin,local,telegram:-9", origin: group("-9"), want: []chat.Address{group("-9")}},
			{text: "http", err: "http has no home channel"},
			{text: "slack", err: `"slack" is no target`},
			{text: "telegram:-1", want: []chat.Address{group("-1")}},
			{text: "telegram:-1:5", want: []chat.Address{topic}},
			{text: "telegram:-4", want: []chat.Address{group("-44")}},
			{text: "telegram:8", want: []chat.Address{dm("8")}},
			{text: "telegram:-5:6", want: []chat.Address{unknown}},
			{text: "telegram:#Cats", want: []chat.Address{group("-3")}},
			{text: "telegram:#news", err: "2 chats of telegram are called #news"},
			{text: "telegram:#dogs", err: "no chat of telegram is known as #dogs"},
			{text: "discord:C", want: []chat.Address{channel}},
			{text: "discord:D", err: "discord has 2 accounts"},
			{text: "telegram,slack", err: `"slack" is no target`},
		} {
			got, err := h.Resolve(t.Context(), tt.text, tt.origin)
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) || tt.err == "" && err != nil {
				t.Errorf("%q: error %v, want %q", tt.text, err, tt.err)
			}
			if d := gocmp.Diff(tt.want, got); d != "" {
				t.Errorf("%q: %s", tt.text, d)
			}
		}
		h.SetConfigured(nil)
		if _, err := h.Resolve(t.Context(), "all", dm("7")); err == nil || !strings.Contains(err.Error(), "no platform has a home channel") {
			t.Errorf("all without home channels: %v", err)
		}
	})
}

// What users have set outlives the process and takes precedence over the configuration.
func TestHomeChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		homes := func(d *target.Directory) string {
			var all []string
			for _, at := range d.HomeChannels() {
				all = append(all, at.String())
			}
			return strings.Join(slices.Sorted(slices.Values(all)), " ")
		}
		h.SetConfigured(map[chat.Platform]chat.Address{chat.Telegram: group("-9"), chat.Discord: channel})
		if got := homes(h.Directory); got != "discord:C telegram:-9" {
			t.Errorf("configured: %s", got)
		}
		if err := h.SetHome(t.Context(), group("-1")); err != nil {
			t.Fatal(err)
		}
		for _, at := range []chat.Address{{Platform: chat.HTTP, Chat: "x"}, {Platform: chat.Slack, Chat: "x"}} {
			if err := h.SetHome(t.Context(), at); err == nil || !strings.Contains(err.Error(), "nothing can be sent to "+string(at.Platform)+" unasked") {
				t.Errorf("%s: %v", at, err)
			}
		}
		h.SetConfigured(map[chat.Platform]chat.Address{chat.Telegram: group("-8")}) // a reload
		if got := homes(h.Directory); got != "telegram:-1" {
			t.Errorf("set by a user: %s", got)
		}
		if raw, err := h.store.Value(t.Context(), "homes"); err != nil || string(raw) != `{"telegram":{"p":"telegram","k":"group","c":"-1"}}` {
			t.Errorf("stored: %s, %v", raw, err)
		}
		if err := h.moves.Add(t.Context(), group("-1"), group("-11")); err != nil {
			t.Fatal(err)
		}
		if got := homes(h.reopen()); got != "telegram:-11" {
			t.Errorf("after a restart and a migration: %s", got)
		}
	})
}

func TestKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		topic := group("-1")
		topic.Thread = "5"
		h.addSession(topic, "garden")
		h.addSession(dm("7"), "Ann")
		h.addSession(chat.Address{Platform: chat.HTTP, Kind: chat.DM, Chat: "x"}, "client")
		h.addSession(chat.Address{Platform: chat.Cron, Chat: "job"}, "job")
		h.SetConfigured(map[chat.Platform]chat.Address{chat.Telegram: dm("7")})
		got, err := h.Known(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b target.Info) int { return cmp.Compare(a.Name, b.Name) })
		want := []target.Info{{Name: "telegram", Note: "the home channel"}, {Name: "telegram:-1:5", Note: "group garden"}, {Name: "telegram:7", Note: "dm Ann"}}
		if d := gocmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

var (
	ann = access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Owner}
	bob = access.Principal{Platform: chat.Telegram, ID: "8", Level: access.Member}
)

// All targets get text and files; the conversations there know it, that of the sender has
// it already.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		began := time.Now()
		time.Sleep(time.Second)
		m := target.Message{To: "origin,telegram:8", Text: "**hello**", Files: []chat.File{{Name: "a.txt"}}}
		rows, err := h.Send(t.Context(), dm("7"), "t1", m)
		if err != nil || len(rows) != 4 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, r := range rows {
			if r.ID == 0 || r.Turn != "t1" || r.Role != "notice" {
				t.Errorf("row %+v", r)
			}
		}
		if d := gocmp.Diff([]string{"telegram:7 file a.txt", "telegram:7 hello", "telegram:8 file a.txt", "telegram:8 hello"}, h.sending.take()); d != "" {
			t.Error(d)
		}
		if got := h.Announcements(t.Context(), dm("7"), began, []access.Principal{ann}); got != "" {
			t.Errorf("the sender's conversation is told %q", got)
		}
		want := "[you said here at 2000-01-01 00:00, sent from another conversation]\n**hello**\n[file a.txt]\n[end of what was said]\n\n"
		if got := h.Announcements(t.Context(), dm("8"), began, []access.Principal{ann, bob}); got != want {
			t.Errorf("the other conversation is told %q", got)
		}
		if _, err := h.Send(t.Context(), chat.Address{}, "", target.Message{To: "telegram:7", Text: "hi"}); err != nil {
			t.Fatal(err)
		}
		if got := h.Announcements(t.Context(), dm("7"), began, []access.Principal{ann}); !strings.Contains(got, "sent by the operator]\nhi\n") {
			t.Errorf("the operator's message is told as %q", got)
		}
		h.sending.take()
		for to, m := range map[string]target.Message{
			"that names no place to send to": {To: "local", Text: "hi"},
			"there is nothing to send":       {To: "telegram:8", Text: " \n"},
			"is no target":                   {To: "telegram:8,slack:x", Text: "hi"},
		} {
			if _, err := h.Send(t.Context(), dm("7"), "t2", m); err == nil || !strings.Contains(err.Error(), to) {
				t.Errorf("%+v: %v", m, err)
			}
		}
		if got := h.sending.take(); len(got) > 0 {
			t.Errorf("sent although a target is wrong: %q", got)
		}
	})
}

func TestNotifyOnlyWhereMessagesCanBeSentUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		for _, at := range []chat.Address{dm("7"), {Platform: chat.HTTP, Chat: "x"}, {Platform: chat.Slack, Chat: "x"}} {
			if err := h.Notify(t.Context(), at, "*paused*"); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
		if d := gocmp.Diff([]string{"telegram:7 paused"}, h.sending.take()); d != "" {
			t.Error(d)
		}
		if rows, _, err := h.store.Outbox(t.Context(), outbox.Query{Sent: true}); err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// The answer of a scheduled run is input of its creator, and of other owners if the creator
// is an owner.
func TestAnnouncementsOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		began := time.Now()
		time.Sleep(time.Second)
		cy := access.Principal{Platform: chat.Telegram, ID: "9", Level: access.Owner}
		to := []chat.Address{group("-1"), group("-2")}
		h.AnnounceRun(t.Context(), ann, "plants", "water them", to)
		h.AnnounceRun(t.Context(), bob, "keys", "send them", to)
		h.AnnounceRun(t.Context(), bob, "keys", "send them", to) // stored once
		for _, tt := range []struct {
			readers []access.Principal
			plants  int
			keys    int
		}{
			{[]access.Principal{ann}, 1, 0}, {[]access.Principal{cy}, 1, 0}, {[]access.Principal{ann, cy}, 1, 0},
			{[]access.Principal{bob}, 0, 1}, {[]access.Principal{ann, bob}, 0, 0},
		} {
			for _, at := range to {
				got := h.Announcements(t.Context(), at, began, tt.readers)
				if strings.Count(got, `as the scheduled prompt "plants"]`) != tt.plants || strings.Count(got, "send them") != tt.keys {
					t.Errorf("%v are told in %s: %q", tt.readers, at, got)
				}
			}
		}
		if got := h.Announcements(t.Context(), dm("7"), began, []access.Principal{ann}); got != "" {
			t.Errorf("another chat is told %q", got)
		}
	})
}

// The stored form is that of older versions; an answer of a run without a creator is
// nobody's input.
func TestAnnouncementsOfOlderVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		time.Sleep(time.Hour)
		old := `[{"At":"2000-01-01T00:30:00Z","As":"sent by the operator","Text":"one"},` +
			`{"At":"2000-01-01T00:31:00Z","As":"as the scheduled prompt \"x\"","Text":"two"},` +
			`{"At":"2000-01-01T00:32:00Z","As":"as the scheduled prompt \"y\"","By":{"p":"telegram","id":"7","l":3},"Text":"three"}]`
		if err := h.store.SetValue(t.Context(), "announced:telegram:7:", []byte(old)); err != nil {
			t.Fatal(err)
		}
		got := h.Announcements(t.Context(), dm("7"), time.Time{}, []access.Principal{ann})
		if !strings.Contains(got, "one") || strings.Contains(got, "two") || !strings.Contains(got, "three") {
			t.Errorf("told %q", got)
		}
		h.AnnounceRun(t.Context(), ann, "z", "four", []chat.Address{dm("7")})
		want := strings.TrimSuffix(old, "]") + `,{"At":"2000-01-01T01:00:00Z","As":"as the scheduled prompt \"z\"","By":{"p":"telegram","id":"7","l":3},"Text":"four"}]`
		if raw, err := h.store.Value(t.Context(), "announced:telegram:7:"); err != nil || string(raw) != want {
			t.Errorf("stored %s, %v", raw, err)
		}
	})
}

// Announcements are the newest five since the last turn, of the last week, and not long.
func TestAnnouncementsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		say := func(text string) {
			t.Helper()
			if _, err := h.Send(t.Context(), chat.Address{}, "", target.Message{To: "telegram:7", Text: text}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		told := func(since time.Time) (n int, text string) {
			text = h.Announcements(t.Context(), dm("7"), since, []access.Principal{ann})
			return strings.Count(text, "[you said here"), text
		}
		for i := range 6 {
			say(fmt.Sprint("message ", i))
		}
		if n, text := told(time.Time{}); n != 5 || strings.Contains(text, "message 0") {
			t.Errorf("%d: %q", n, text)
		}
		if n, text := told(time.Now().Add(-90 * time.Second)); n != 1 || !strings.Contains(text, "message 5") {
			t.Errorf("since the last turn %d: %q", n, text)
		}
		time.Sleep(7 * 24 * time.Hour)
		if n, text := told(time.Time{}); n != 0 {
			t.Errorf("after a week %d: %q", n, text)
		}
		say(strings.Repeat("ä", 4001))
		if _, text := told(time.Time{}); strings.Count(text, "ä") != 4000 || !strings.Contains(text, "ä …\n") {
			t.Errorf("a long text: %d characters", strings.Count(text, "ä"))
		}
	})
}
