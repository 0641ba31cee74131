package reply_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/media"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/reply"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

// platform is an adapter of the platforms telegram and, with raw set, http.
type platform struct {
	chat.Adapter
	raw bool
}

func (p platform) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 4096, TextSize: func(r chat.RichText) int { return utf8.RuneCountInString(r.Text) }, RawMarkdown: p.raw}
}

func (platform) Send(context.Context, chat.Outbound) (chat.Receipt, error) {
	return chat.Receipt{ID: "1"}, nil
}

// A fixture is the Reply of a turn of user 7 in a direct message.
type fixture struct {
	*reply.Reply
	claim  store.Claim
	conv   conversation.Conversation
	store  *bolt.Store
	scopes []reply.AttachScope // of files that were attached
	denied bool                // read_file is not permitted
}

func newFixture(t *testing.T, mode string, o reply.Options) *fixture {
	t.Helper()
	db, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	connected := accounts.New(accounts.Options{Log: zap.NewNop(), ReplyToMode: map[chat.Account]string{{Platform: chat.Telegram}: mode}})
	connected.Add(chat.Account{Platform: chat.Telegram}, platform{})
	connected.Add(chat.Account{Platform: chat.HTTP}, platform{raw: true})
	out := delivery.New(delivery.Options{Store: db, Accounts: connected, Masker: new(secret.Masker), Settled: func(outbox.Row, outbox.Settlement) {}, Observe: func(observe.Event) {}, Log: zap.NewNop()})
	t.Cleanup(func() {
		if err := errors.Join(out.Close(time.Minute), db.Close()); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{store: db}
	o.Observe = func(observe.Event) {}
	w := reply.New(reply.Parts{
		Delivery: out, Accounts: connected, Options: o,
		Directory: target.New(target.Parts{Store: db, Accounts: connected, Delivery: out}, target.Options{Location: time.UTC, Log: zap.NewNop()}),
		Targets: func(context.Context, schedule.OccurrenceID) []chat.Address {
			return []chat.Address{direct("7"), direct("8")}
		},
		Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "…") },
		Files: reply.Files{
			Attach: func(path string, s reply.AttachScope) (chat.File, error) {
				f.scopes = append(f.scopes, s)
				if path == "/no" {
					return chat.File{}, errors.New("it is not yours")
				}
				return chat.File{Kind: chat.Document, Name: path, Path: path}, nil
			},
			CheckTool: func(session.Record, access.Principal, string) error {
				if f.denied {
					return errors.New("denied")
				}
				return nil
			},
		},
	})
	f.claim = store.Claim{Turn: "t1", Entries: []inbox.Entry{
		{ID: 1, Inbound: chat.Inbound{ID: "p1", Address: direct("7"), Files: []chat.File{{Path: "/cache/voice.ogg"}}}},
		{ID: 2, Inbound: chat.Inbound{ID: "p2", Address: direct("7")}},
	}}
	f.conv.Transcript = llm.NewTranscript()
	f.Reply = w.Reply(&f.claim, zap.NewNop())
	return f
}

func direct(id string) chat.Address {
	return chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: id}
}

// rows describes rows: "address > quoted message: text".
func rows(rs []outbox.Row) (out []string) {
	for _, r := range rs {
		text := r.Msg.Text.Text
		switch {
		case r.Delete != 0:
			text = "delete " + r.Delete.String()
		case r.Msg.File != nil:
			text = "file " + r.Msg.File.Name
		case r.Replaces != 0:
			text = "edit " + r.Replaces.String() + ": " + text
		}
		if r.Msg.ReplyTo != "" {
			text = "> " + r.Msg.ReplyTo + " " + text
		}
		out = append(out, r.Msg.To.Chat+" "+text)
	}
	return out
}

func check(t *testing.T, what string, got []outbox.Row, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, rows(got)); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

func TestWhatAnAnswerQuotes(t *testing.T) {
	for _, c := range []struct {
		mode       string
		group      bool
		remaining  int
		background bool
		want       string
	}{
		{"first", false, 0, false, ""},
		{"first", false, 1, false, "p2"},
		{"first", true, 0, false, "p2"},
		{"off", true, 1, false, ""},
		{"off", false, 0, true, "p2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, c.mode, reply.Options{})
			last := &f.claim.Entries[1]
			if last.Background, f.claim.Remaining = c.background, c.remaining; c.group {
				last.Inbound.Address.Kind = chat.Group
			}
			d := f.Draft()
			if d.ReplyTo != c.want || d.Turn != "t1" || !slices.Equal(d.ReplyToIDs, []string{"p1", "p2"}) {
				t.Errorf("%+v: %+v", c, d)
			}
			if r := f.Failure("no answer"); len(r) != 1 || r[0].Msg.ReplyTo != "p1" {
				t.Errorf("a failure is sent as %q", rows(r))
			}
		})
	}
}

func TestAnAnswerReplacesItsPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, "off", reply.Options{})
		f.claim.Previews, f.claim.Deletions = []outbox.Row{{ID: 3}}, []outbox.ID{2}
		answer := f.AnswerDraft(1, llm.Usage{Input: 5, CacheRead: 3, Output: 2})
		if !slices.Equal(answer.ReplyToIDs, []string{"p1"}) || answer.Purpose != chat.PurposeAnswer || answer.Usage.Prompt != 8 || answer.Usage.Cached != 3 {
			t.Errorf("draft %+v", answer)
		}
		got := f.Rows(answer, "hello", reply.Preview{ID: 4, Settled: true}, &f.conv)
		check(t, "settled", got, "7 edit o4: hello", "7 delete o3")
		if !slices.Equal(got[0].Follows, []outbox.ID{2, 3}) {
			t.Errorf("follows %v", got[0].Follows)
		}
		check(t, "not settled", f.Rows(answer, "hello", reply.Preview{ID: 4}, &f.conv), "7 hello", "7 delete o3", "7 delete o4")
		check(t, "only a file", f.Rows(answer, "MEDIA:/a", reply.Preview{ID: 5, Settled: true}, &f.conv), "7 delete o3", "7 delete o4", "7 delete o5", "7 file /a")
		check(t, "deletions", f.DeletePreviews(), "7 delete o3", "7 delete o4", "7 delete o5")
	})
}

func TestWhichFilesMayBeAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, "off", reply.Options{})
		f.conv.Record.Files = []string{"old.png"}
		f.conv.Transcript.Append(llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.Image, Path: "/cache/seen.png"}}})
		got := f.Rows(f.Draft(), "Here.\nMEDIA:/a\nMEDIA:/no", reply.Preview{}, &f.conv)
		check(t, "attached", got, "7 Here.\n\n⚠️ I could not attach /no: it is not yours.", "7 file /a")
		f.denied = true
		f.Rows(f.Draft(), "MEDIA:/a", reply.Preview{}, &f.conv)
		want := []reply.AttachScope{
			{Workspace: true, Received: []string{"voice.ogg", "old.png", "seen.png"}},
			{Workspace: true, Received: []string{"voice.ogg", "old.png", "seen.png"}},
			{Received: []string{"voice.ogg"}},
		}
		if d := cmp.Diff(want, f.scopes); d != "" {
			t.Error(d)
		}
		for i := range f.claim.Entries {
			f.claim.Entries[i].Inbound.Address.Platform = chat.HTTP
		}
		check(t, "raw Markdown", f.Rows(f.Draft(), "MEDIA:/a", reply.Preview{}, &f.conv), "7 MEDIA:/a")
	})
}

func TestAScheduledRunSpeaksToItsTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, "off", reply.Options{})
		f.claim.Entries[0].Occurrence = &schedule.OccurrenceID{Job: "j1"}
		got, to := f.ToTargets(t.Context(), "Done.\nMEDIA:/a", &f.conv)
		check(t, "answer", got, "7 Done.", "7 file /a", "8 Done.", "8 file /a")
		if len(to) != 2 {
			t.Errorf("targets %v", to)
		}
		f.claim.Previews = []outbox.Row{{ID: 3}}
		check(t, "failure", f.Failure("no model"), "7 delete o3", "7 ⏰ Scheduled prompt j1: no model", "8 ⏰ Scheduled prompt j1: no model")
		if text := f.ErrorText(i18n.Printer{}, &failure.JobError{Err: i18n.Errorf("hunter2")}); text == "" || strings.Contains(text, "hunter2") {
			t.Errorf("the text of an error is not masked: %q", text)
		}
		if got := f.Notices([]string{"a notice"}); got != nil {
			t.Errorf("notices: %q", rows(got))
		}
		f.Notify("nobody reads this")
		if all, _, err := f.store.Outbox(t.Context(), outbox.Query{Sent: true}); err != nil || len(all) != 0 {
			t.Errorf("%q, %v", rows(all), err)
		}
	})
}

func TestProgressLines(t *testing.T) {
	call := agent.ToolCall{Name: "terminal", Input: []byte("{\"command\": \"ls `pwd`\"}")}
	for mode, want := range map[string][2]string{
		"off": {"", ""}, "new": {"🔧 terminal", ""},
		"all":     {"🔧 terminal " + tool.InputSummary(call.Input), "🔧 terminal " + tool.InputSummary(call.Input)},
		"verbose": {"🔧 terminal `{\"command\": \"ls 'pwd'\"}`", "🔧 terminal `{\"command\": \"ls 'pwd'\"}`"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, "off", reply.Options{Progress: mode})
			if got := [2]string{f.ProgressLine(call, nil, &f.conv), f.ProgressLine(call, []string{"terminal"}, &f.conv)}; got != want {
				t.Errorf("%s: %q", mode, got)
			}
			f.conv.Record.Settings.ToolProgress = "new"
			if got := f.ProgressLine(call, []string{"terminal", "web"}, &f.conv); got != "🔧 terminal" {
				t.Errorf("the setting of the session: %q", got)
			}
		})
	}
}

func TestAToolSendsToTheChatOfTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, "off", reply.Options{})
		to, err := f.SendMessage(t.Context(), f.claim.Entries[1], tool.Message{To: "origin", Text: "hi", Files: []string{"/a"}}, &f.conv)
		if err != nil || to != "on its way to telegram:7" {
			t.Errorf("%q, %v", to, err)
		}
		if _, err := f.SendMessage(t.Context(), f.claim.Entries[1], tool.Message{To: "origin", Files: []string{"/no"}}, &f.conv); err == nil || !strings.Contains(err.Error(), "not yours") {
			t.Errorf("%v", err)
		}
	})
}

func TestARecordingOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, "off", reply.Options{})
		var spoken []string
		f.Files.Synthesize = func(_ context.Context, text string) (chat.File, error) {
			spoken = append(spoken, text)
			switch text {
			case "bad":
				return chat.File{}, i18n.Errorf("no voice")
			case "no service":
				return chat.File{}, media.ErrNone
			}
			return chat.File{Kind: chat.Voice, Name: "answer.ogg"}, nil
		}
		for _, s := range []string{"**hello**", " ", "bad", "no service"} {
			f.Speak(t.Context(), s)
		}
		synctest.Wait()
		sent, _, err := f.store.Outbox(t.Context(), outbox.Query{Sent: true})
		if err != nil || !slices.Equal(spoken, []string{"hello", "bad", "no service"}) {
			t.Fatalf("spoken %q, %v", spoken, err)
		}
		check(t, "sent", sent, "7 file answer.ogg", "7 I could not speak this answer: no voice.")
	})
}
