package telegram_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/telegram"
	"hermesd/adapters/telegram/internal/entity"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/telegram"
)

// send sends m and returns the parameters of the call that made it.
func (w *world) send(t *testing.T, a *telegram.Adapter, m chat.Outbound) sim.Call {
	t.Helper()
	if m.ID == "" {
		m.ID = "o1"
	}
	if _, err := a.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	calls := w.srv.Recorder().Calls()
	return calls[len(calls)-1]
}

func (w *world) bot() *telegram.Adapter { return w.adapter(w.config(""), "") }

func TestAMessageLeavesAsItWasMeant(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.direct()
		asked := r.c.Say(w.people[0], "hello")
		c := w.send(t, w.bot(), chat.Outbound{
			To: r.At(), ReplyTo: strconv.Itoa(asked.ID), Quiet: true,
			Text:    chat.RichText{Text: "😀 see https://x.org & <b>", Spans: []chat.Span{{Start: 5, End: 8, Style: chat.Bold}}},
			Buttons: [][]chat.Button{{{Label: "Yes", Data: "y:1"}, {Label: "No", Data: "n:1"}}},
		})
		got := map[string]string{}
		for _, k := range []string{"parse_mode", "link_preview_options", "reply_parameters", "disable_notification", "message_thread_id", "reply_markup"} {
			got[k] = c.Params[k]
		}
		want := map[string]string{
			"parse_mode": "", "link_preview_options": `{"is_disabled":true}`, "message_thread_id": "",
			"reply_parameters":     `{"message_id":` + strconv.Itoa(asked.ID) + `,"allow_sending_without_reply":true}`,
			"disable_notification": "true",
			"reply_markup":         `{"inline_keyboard":[[{"text":"Yes","callback_data":"y:1"},{"text":"No","callback_data":"n:1"}]]}`,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		m := r.c.FromBots()[0]
		if m.Text != "😀 see https://x.org & <b>" || m.ReplyTo != asked.ID || !m.Silent || len(m.Buttons) != 1 {
			t.Errorf("%+v", m)
		}
	})
}

func TestTopics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.bot()
		at := chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: strconv.FormatInt(w.forum.ID(), 10)}
		at.Thread = strconv.Itoa(w.topic)
		if c := w.send(t, a, chat.Outbound{To: at, Text: chat.PlainText("in the topic")}); c.Params["message_thread_id"] != at.Thread {
			t.Errorf("thread %q", c.Params["message_thread_id"])
		}
		if err := a.Typing(t.Context(), at); err != nil {
			t.Error(err)
		}
		at.Thread = "1"
		if c := w.send(t, a, chat.Outbound{To: at, Text: chat.PlainText("in General")}); c.Params["message_thread_id"] != "" {
			t.Errorf("thread of General %q", c.Params["message_thread_id"])
		}
		at.Thread = "77"
		w.send(t, a, chat.Outbound{To: at, Text: chat.PlainText("the topic is gone")})
		if m := w.forum.FromBots(); len(m) != 3 || m[2].Thread != 0 {
			t.Errorf("%+v", m)
		}
		at.Thread = strconv.Itoa(w.topic)
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 400, Description: "Bad Request: TOPIC_CLOSED", Match: func(c sim.Call) bool { return c.Params["message_thread_id"] != "" }})
		w.send(t, a, chat.Outbound{To: at, Text: chat.PlainText("the topic is closed")})
		if m := w.forum.FromBots(); len(m) != 4 || m[3].Thread != 0 {
			t.Errorf("%+v", m)
		}
		private := w.direct().At()
		w.direct().Say("hello")
		private.Thread = "77" // a direct topic is another conversation: nothing goes elsewhere
		_, err := a.Send(t.Context(), chat.Outbound{ID: "o", To: private, Text: chat.PlainText("x")})
		if se := sendError(t, err); se.Outcome != chat.Permanent || len(w.direct().Visible()) != 0 {
			t.Errorf("%+v", se)
		}
	})
}

func TestRefusedFormsGoInAnotherOne(t *testing.T) {
	for _, c := range []struct {
		name, text string
		check      func(sim.Call) bool
	}{
		{"styles", "Bad Request: can't parse entities: Can't find end of the entity", func(c sim.Call) bool { return c.Params["entities"] == "" }},
		{"quotation", "Bad Request: message to be replied not found", func(c sim.Call) bool { return c.Params["reply_parameters"] == "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.direct()
				r.Say("hello")
				w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "sendMessage", Status: 400, Description: c.text})
				call := w.send(t, w.bot(), chat.Outbound{To: r.At(), ReplyTo: "1", Text: chat.RichText{Text: "bold", Spans: []chat.Span{{End: 4, Style: chat.Bold}}}})
				if !c.check(call) || len(r.Visible()) != 1 {
					t.Errorf("%+v visible %q", call.Params, r.Visible())
				}
			})
		})
	}
}

func TestOtherErrorsAreNeverTakenForRefusedStyles(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, a := w.direct(), w.bot()
		r.Say("hello")
		for _, f := range []sim.Fault{{Kind: sim.CutAfter}, {Kind: sim.Fail, Status: 429, RetryAfter: time.Second}, {Kind: sim.Fail, Status: 400, Description: "Bad Request: chat not found"}} {
			f.Method = "sendMessage"
			w.srv.Inject(f)
			n := w.srv.Recorder().Counts().ByMethod["sendmessage"]
			_, err := a.Send(t.Context(), chat.Outbound{ID: "o", To: r.At(), Text: chat.RichText{Text: "bold", Spans: []chat.Span{{End: 4, Style: chat.Bold}}}})
			sendError(t, err)
			if got := w.srv.Recorder().Counts().ByMethod["sendmessage"] - n; got != 1 {
				t.Errorf("%v: %d calls", f.Kind, got)
			}
		}
	})
}

func TestWhatCannotBeSentIsSaidBeforehand(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, a := w.direct(), w.bot()
		file := func(size int64, kind chat.FileKind) *chat.File { return &chat.File{Kind: kind, Path: bigFile(t, size)} }
		at := func(id, thread string) chat.Address { return chat.Address{Chat: id, Thread: thread} }
		for _, c := range []struct {
			name string
			m    chat.Outbound
			want string
		}{
			{"empty", chat.Outbound{To: r.At(), Text: chat.PlainText(" \n")}, "empty"},
			{"no chat", chat.Outbound{To: at("x", ""), Text: chat.PlainText("x")}, "not a Telegram chat"},
			{"no topic", chat.Outbound{To: at("5", "abc"), Text: chat.PlainText("x")}, "not a Telegram topic"},
			{"button", chat.Outbound{To: r.At(), Text: chat.PlainText("x"), Buttons: [][]chat.Button{{{Label: "a", Data: strings.Repeat("x", 65)}}}}, "64 bytes"},
			{"large file", chat.Outbound{To: r.At(), File: file(50<<20+1, chat.Document)}, "50 MB"},
			{"empty file", chat.Outbound{To: r.At(), File: file(0, chat.Document)}, "empty"},
			{"no file", chat.Outbound{To: r.At(), File: &chat.File{Path: "/nowhere/x"}}, "cannot be read"},
			{"a folder", chat.Outbound{To: r.At(), File: &chat.File{Path: t.TempDir()}}, "cannot be read"},
		} {
			_, err := a.Send(t.Context(), c.m)
			if se := sendError(t, err); se.Outcome != chat.Permanent || !strings.Contains(se.Reason, c.want) {
				t.Errorf("%s: %+v", c.name, se)
			}
		}
		if n := len(w.srv.Recorder().Calls()); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestFilesLeaveAsWhatTheyAre(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, a := w.direct(), w.bot()
		r.Say("hello")
		path := filepath.Join(t.TempDir(), "report.bin")
		if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			f    chat.File
			want sim.MediaKind
			call string
		}{
			{chat.File{Kind: chat.Document, Path: path, Name: "a b.txt"}, sim.Document, "senddocument"},
			{chat.File{Kind: chat.Photo, Path: path}, sim.Photo, "sendphoto"},
			{chat.File{Kind: chat.Voice, Path: path}, sim.Voice, "sendvoice"},
			{chat.File{Kind: chat.Audio, Path: path}, sim.Audio, "sendaudio"},
			{chat.File{Kind: chat.Video, Path: path}, sim.Video, "sendvideo"},
			{chat.File{Kind: chat.Sticker, Path: path}, sim.Document, "senddocument"},
			{chat.File{Kind: chat.Photo, Path: bigFile(t, 10<<20+1)}, sim.Document, "senddocument"},
		} {
			call := w.send(t, a, chat.Outbound{To: r.At(), File: &c.f, Text: chat.RichText{Text: "see", Spans: []chat.Span{{End: 3, Style: chat.Italic}}}})
			sent := r.c.FromBots()
			m := sent[len(sent)-1]
			if call.Method != c.call || m.Media == nil || m.Media.Kind != c.want || m.Text != "see" || len(m.Entities) != 1 {
				t.Errorf("%s: %s %+v", c.f.Kind, call.Method, m)
			} else if c.f.Path == path && string(m.Media.Data) != "content" {
				t.Errorf("%s: %d bytes", c.f.Kind, len(m.Media.Data))
			}
			if c.f.Name != "" && m.Media.Name != c.f.Name {
				t.Errorf("name %q", m.Media.Name)
			}
		}
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "sendPhoto", Status: 400, Description: "Bad Request: PHOTO_INVALID_DIMENSIONS"})
		if call := w.send(t, a, chat.Outbound{To: r.At(), File: &chat.File{Kind: chat.Photo, Path: path}}); call.Method != "senddocument" {
			t.Errorf("a photo that is none leaves by %s", call.Method)
		}
	})
}

func TestAButtonComesBackAndIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, r, a := adaptertest.NewInbox(t), w.direct(), w.bot()
		running(t, a, inbox)
		r.Say("hello")
		w.send(t, a, chat.Outbound{To: r.At(), Text: chat.PlainText("sure?"), Buttons: [][]chat.Button{{{Label: "Yes", Data: "ok"}}}})
		id, err := r.c.Press(w.people[0], r.c.FromBots()[0].ID, "ok")
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		all := inbox.Events()
		in := all[len(all)-1]
		if in.Kind != chat.Callback || in.IdempotencyKey != id || in.Text != "ok" || in.Address != r.At() {
			t.Fatalf("%+v", in)
		}
		for range 2 { // too late the second time
			if err := a.AnswerCallback(t.Context(), in, strings.Repeat("done ", 60)); err != nil {
				t.Error(err)
			}
			pass(2 * time.Minute)
		}
	})
}

func TestTheMenuIsWrittenOnlyWhenItChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.bot()
		items := []chat.CommandInfo{{Name: "new", Help: "start over"}, {Name: "bg-run", Help: ""}, {Name: "bg_run", Help: "again"}, {Name: "Über", Help: "no"}}
		for range 3 {
			if err := a.PublishCommands(t.Context(), items); err != nil {
				t.Fatal(err)
			}
		}
		for _, scope := range []string{"all_private_chats", "all_group_chats"} {
			if got := w.bots[""].Commands(scope); !slices.Equal(got, []string{"new", "bg_run"}) {
				t.Errorf("%s: %q", scope, got)
			}
		}
		if n := w.srv.Recorder().Counts().ByMethod["setmycommands"]; n != 2 {
			t.Errorf("written %d times", n)
		}
		if err := a.PublishCommands(t.Context(), items[:1]); err != nil {
			t.Fatal(err)
		}
		if n := w.srv.Recorder().Counts().ByMethod["setmycommands"]; n != 4 {
			t.Errorf("after a change written %d times", n)
		}
	})
}

// TestServerKeepsWhatRenderMakes: what render makes is what the server keeps.
func TestServerKeepsWhatRenderMakes(t *testing.T) {
	styles := []chat.Style{chat.Bold, chat.Italic, chat.Strike, chat.Spoiler, chat.Code, chat.CodeBlock, chat.Link, chat.BlockQuote}
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bc", "😀", "漢字", "é"}), 1, 8).Draw(rt, "words")
		text := strings.Join(words, " ")
		var spans []chat.Span
		for i, n := 0, rapid.IntRange(0, 4).Draw(rt, "n"); i < n; i++ {
			from, to := wordRange(words, rapid.IntRange(0, len(words)-1).Draw(rt, "from"), rapid.IntRange(0, len(words)-1).Draw(rt, "to"))
			s := chat.Span{Start: from, End: to, Style: rapid.SampledFrom(styles).Draw(rt, "style"), Arg: "https://x.org/"}
			if s.Style == chat.CodeBlock {
				s.Arg = "go"
			}
			if !slices.ContainsFunc(spans, func(o chat.Span) bool { return crosses(o, s) || o.Style == s.Style && meets(o, s) }) {
				spans = append(spans, s)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Options{})
			r := w.direct()
			r.Say("hello")
			w.send(t, w.bot(), chat.Outbound{To: r.At(), Text: chat.RichText{Text: text, Spans: spans}})
			if m := r.c.FromBots()[0]; m.Corrected != 0 || m.Text != text {
				kept, _ := json.Marshal(m.Entities)
				_, es := entity.Render(chat.RichText{Text: text, Spans: spans})
				given, _ := json.Marshal(es)
				rt.Errorf("%q %+v: the server changed %d of %s to %s", text, spans, m.Corrected, given, kept)
			}
		})
	})
}

func wordRange(words []string, i, j int) (from, to int) {
	i, j = min(i, j), max(i, j)
	from = len(strings.Join(words[:i], " "))
	if i > 0 {
		from++
	}
	return from, len(strings.Join(words[:j+1], " "))
}

func crosses(a, b chat.Span) bool {
	return a.Start < b.Start && b.Start < a.End && a.End < b.End || b.Start < a.Start && a.Start < b.End && b.End < a.End
}

func meets(a, b chat.Span) bool { return a.Start <= b.End && b.Start <= a.End }

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"new": "new", "/New": "new", "bg-run": "bg_run", "": "", "über": "", strings.Repeat("a", 33): "", "a b": "",
	} {
		if got := telegram.MenuName(in); got != want {
			t.Errorf("MenuName(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"../../etc/passwd": "passwd", strings.Repeat("😀", 70): strings.Repeat("😀", 64),
	} {
		if got := telegram.FileName(chat.File{Name: in}); got != want {
			t.Errorf("FileName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPayloadsOfDefects(t *testing.T) { playPayloads(t, adaptertest.OwnPayloads(t)) }

func TestPayloadsOfOthers(t *testing.T) {
	playPayloads(t, adaptertest.SharedPayloads(t, chat.Telegram))
}

// unread are pieces of payloads that are not part of what people send: names of
// the same file and number twice, and how the cells of a table are aligned.
var unread = map[string][]string{
	"te-99cb3a28e0": {"sdaafsghhjhgkkygrssgdfghgfdgh.mp4"},
	"te-521deca889": {"618490765"},
	"te-0dde15251f": {"center", "middle", "left"},
}

// playPayloads sends payloads to an adapter as updates. Each message must become
// one event with everything that people see in it.
func playPayloads(t *testing.T, payloads []adaptertest.Payload) {
	inBubble(t, func(t *testing.T, w *world) {
		tape := adaptertest.NewTape(t)
		config := w.config("")
		config.RequireMention = false
		running(t, w.adapter(config, ""), tape)
		_ = tape.Take() // of the simulator
		for _, p := range payloads {
			p.Without(unread[p.ID]...)
			kind, content := update(t, p)
			w.bots[""].PushRaw(kind, func(id int) []byte {
				return fmt.Appendf(nil, `{"update_id":%d,%q:%s}`, id, kind, content)
			})
			pass(2 * time.Second)
			got := tape.Take()
			if !p.Is("message", "edited_message", "channel_post", "edited_channel_post") {
				if len(got) > 1 {
					t.Errorf("%s, %s: %+v", p.ID, p.Kind, got)
				}
				continue
			}
			if len(got) != 1 {
				t.Errorf("%s, %s: %d events", p.ID, p.Kind, len(got))
				continue
			}
			p.Check(t, got[0])
			if strings.Contains(got[0].Text, "cannot read") {
				t.Errorf("%s, %s: %q", p.ID, p.Kind, got[0].Text)
			}
			if strings.Contains(p.Kind, "service:") && got[0].Kind != chat.Migrated && got[0].IgnoreRule == "" {
				t.Errorf("%s, %s is answered", p.ID, p.Kind)
			}
		}
	})
}

// update returns the kind and the object of an update. A payload without
// update_id is the object itself.
func update(t *testing.T, p adaptertest.Payload) (kind string, content json.RawMessage) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(p.Payload, &fields); err != nil {
		t.Fatalf("%s: %v", p.ID, err)
	}
	kind, _, _ = strings.Cut(p.Kind, "/")
	if fields["update_id"] == nil {
		return kind, p.Payload
	}
	return kind, fields[kind]
}
