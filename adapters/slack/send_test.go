package slack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	sim "hermesd/internal/sim/slack"
)

// thread is the address of a thread in the channel that has to be named.
func (w *world) thread(c *sim.Channel, ts string) chat.Address {
	return chat.Address{Platform: chat.Slack, Kind: chat.Thread, Scope: w.team.ID(), Chat: c.ID(), Thread: ts}
}

func text(id string, to chat.Address, s string) chat.Outbound {
	return chat.Outbound{ID: id, To: to, Text: chat.PlainText(s)}
}

func outcome(t *testing.T, err error) *chat.SendError {
	t.Helper()
	var se *chat.SendError
	if !errors.As(err, &se) {
		t.Fatalf("%v is no SendError", err)
	}
	return se
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("")
		dm := w.Direct("", 0).At()
		for code, want := range map[string]string{
			"channel_not_found": "/invite", "not_in_channel": "/invite", "is_archived": "archived", "msg_too_long": "longer than",
			"restricted_action": "administrator", "invalid_auth": "token (SLACK_BOT_TOKEN)", "not_authed": "token", "account_inactive": "install it again",
			"token_revoked": "install the app again", "token_expired": "install the app again", "not_allowed_token_type": "xoxb-",
			"missing_scope": "OAuth & Permissions", "user_not_found": "person", "thread_not_found": "not there any more",
			"messages_tab_disabled": "Messages Tab", "fatal_error": "does not know whether", "internal_error": "does not know whether",
			"request_timeout": "not available", "no_text": "empty", "brand_new": "brand_new", "org_login_required": "not installed",
		} {
			w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "chat.postMessage", Error: code})
			_, err := a.Send(t.Context(), text("o1", dm, "x"))
			if se := outcome(t, err); !strings.Contains(se.Reason, want) || strings.Contains(se.Reason, "\n") {
				t.Errorf("%s: %q, want %q in it", code, se.Reason, want)
			}
		}
		w.bots[""].SetScopes("im:history")
		_, err := a.Send(t.Context(), text("o1", dm, "x"))
		if se := outcome(t, err); se.Outcome != chat.Transient || !strings.Contains(se.Reason, "chat:write") {
			t.Errorf("a missing scope: %v", err)
		}
	})
}

func TestChannelsThatTakeNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("")
		to := func(c *sim.Channel) chat.Address { return w.thread(c, "") }
		w.closed.Archive(true)
		private := w.team.AddChannel(sim.ChannelOptions{Private: true, Members: w.people})
		for name, at := range map[string]chat.Address{
			"archived": to(w.closed), "private": to(private), "deleted": {Platform: chat.Slack, Chat: "C0GONE"},
			"no channel": {Platform: chat.Slack}, "no thread": w.thread(w.open, "yesterday"), "a name": {Platform: chat.Slack, Chat: "x y"},
		} {
			_, err := a.Send(t.Context(), text("o1", at, "x"))
			if se := outcome(t, err); se.Outcome != chat.Permanent {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.closed.Archive(false)
		if _, err := a.Send(t.Context(), text("o1", to(w.closed), "x")); err != nil {
			t.Error(err)
		}
		for name, m := range map[string]chat.Outbound{
			"empty":               text("o1", to(w.open), " \n"),
			"a button of nothing": {ID: "o1", To: to(w.open), Text: chat.PlainText("x"), Buttons: [][]chat.Button{{{Label: "x"}}}},
			"a button too large":  {ID: "o1", To: to(w.open), Text: chat.PlainText("x"), Buttons: [][]chat.Button{{{Label: "x", Data: strings.Repeat("x", 65)}}}},
		} {
			if _, err := a.Send(t.Context(), m); outcome(t, err).Outcome != chat.Permanent {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(w.open.FromBots()); n != 0 {
			t.Errorf("%d messages stand there", n)
		}
	})
}

func TestAnUncertainSendIsFoundOrNot(t *testing.T) {
	for _, threaded := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			a := w.Connect("").(*slack.Adapter)
			at := w.thread(w.open, "")
			if threaded {
				at.Thread = w.open.Say(w.people[0], "root").TS
			}
			for i, c := range []struct {
				kind sim.FaultKind
				ok   bool
			}{{sim.CutAfter, true}, {sim.Cut, false}, {sim.GarbageAfter, true}, {sim.HangAfter, true}, {sim.Hang, false}, {sim.CutBody, true}} {
				w.srv.Inject(sim.Fault{Kind: c.kind, Method: "chat.postMessage"})
				m := text(fmt.Sprint("o", i), at, fmt.Sprint("message ", i))
				_, err := a.Send(t.Context(), m)
				if outcome(t, err).Outcome != chat.Uncertain {
					t.Errorf("%v: %v", c.kind, err)
				}
				for n := 210; n > 0 && i < 2; n-- { // others write, more than a page
					w.open.Post(sim.Post{From: w.people[1], Text: "noise", Thread: at.Thread})
				}
				pass(time.Hour)
				r, ok, err := a.Find(t.Context(), m)
				if err != nil || ok != c.ok {
					t.Errorf("%v: found %v, %v", c.kind, ok, err)
				}
				if all := w.open.FromBots(); ok && r.ID != all[len(all)-1].TS {
					t.Errorf("%v: found as %s", c.kind, r.ID)
				}
				w.srv.ClearFaults()
			}
			m := text("o0", at, "x")
			w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "conversations.*", Error: "ratelimited", RetryAfter: time.Minute})
			if _, _, err := a.Find(t.Context(), m); outcome(t, err).RetryAfter != time.Minute {
				t.Errorf("a limit: %v", err)
			}
			w.bots[""].SetScopes("chat:write")
			if _, _, err := a.Find(t.Context(), m); err == nil || !strings.Contains(err.Error(), "history") {
				t.Errorf("a missing scope: %v", err)
			}
		})
	}
}

func TestFindWithoutCursors(t *testing.T) {
	for _, threaded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Options{NoCursors: true}, sim.AppOptions{})
			a, at := w.Connect("").(*slack.Adapter), w.thread(w.open, "")
			if threaded {
				at.Thread = w.open.Say(w.people[0], "root").TS
			}
			noise := func() {
				for range 450 {
					w.open.Post(sim.Post{From: w.people[1], Text: "noise", Thread: at.Thread})
				}
			}
			noise()
			r, err := a.Send(t.Context(), text("o1", at, "x"))
			if err != nil {
				t.Fatal(err)
			}
			noise()
			if got, ok, err := a.Find(t.Context(), text("o1", at, "x")); err != nil || !ok || got != r {
				t.Errorf("threaded %v: %v %v %v", threaded, got, ok, err)
			}
			if _, ok, err := a.Find(t.Context(), text("o2", at, "x")); err != nil || ok {
				t.Errorf("threaded %v: what was never sent is %v %v", threaded, ok, err)
			}
		})
	}
}

func TestFindLooksFromTheMessagesTimeOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, at := w.Connect("").(*slack.Adapter), w.thread(w.open, "")
		for range 2100 {
			w.open.Say(w.people[0], "noise")
		}
		pass(10 * time.Minute)
		m, never := text("o1", at, "x"), text("o2", at, "x")
		m.CreatedAt, never.CreatedAt = time.Now(), time.Now()
		pass(time.Hour)
		if _, err := a.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if _, ok, err := a.Find(t.Context(), m); err != nil || !ok {
			t.Errorf("%v %v", ok, err)
		}
		if _, ok, err := a.Find(t.Context(), never); err != nil || ok {
			t.Errorf("what was never sent: %v %v", ok, err)
		}
	})
}

func TestWhatIsTooMuchToLookThroughStaysUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("").(*slack.Adapter)
		for range 2100 {
			w.open.Say(w.people[0], "noise")
		}
		if _, ok, err := a.Find(t.Context(), text("o1", w.thread(w.open, ""), "x")); ok || err == nil {
			t.Errorf("%v %v", ok, err)
		}
		pass(26 * time.Hour) // older than any attempt
		if _, ok, err := a.Find(t.Context(), text("o1", w.thread(w.open, ""), "x")); ok || err != nil {
			t.Errorf("%v %v", ok, err)
		}
	})
}

func TestLongTextsAndButtons(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, dm := w.Connect("").(*slack.Adapter), w.Direct("", 0)
		lines := strings.Repeat("a line with <angles> & more\n", 150) // 4,200, and escaped over 5,000
		r, err := a.Send(t.Context(), text("o1", dm.At(), lines))
		if err != nil {
			t.Fatal(err)
		}
		m := dm.(*room).c.FromBots()[0]
		if !m.Bare { // for a preview Slack would fetch whatever address a model was made to write
			t.Error("it shows previews of links")
		}
		if !strings.Contains(m.Shown(), "&lt;angles&gt;") || len(m.Blocks) == 0 || !strings.HasPrefix(m.Text, "a line") {
			t.Errorf("%s", m.Blocks)
		}
		if err := a.Edit(t.Context(), r.ID, text("o1", dm.At(), lines+"changed")); err != nil {
			t.Error(err)
		} else if m := dm.(*room).c.FromBots()[0]; !strings.HasSuffix(m.Shown(), "changed") {
			t.Error("the edit does not show")
		}
		if err := a.Edit(t.Context(), r.ID, text("o1", dm.At(), "short")); err != nil {
			t.Error(err)
		} else if m := dm.(*room).c.FromBots()[0]; m.Shown() != "short" {
			t.Errorf("the blocks of before still show: %s", m.Shown())
		}
		if c := w.srv.Recorder().Calls("chat.update"); c[len(c)-1].Params["blocks"] != "[]" {
			t.Errorf("the old blocks are not taken away: %v", c[len(c)-1].Params)
		}
		for _, n := range []int{13_000, 39_000} {
			if err := a.Edit(t.Context(), r.ID, text("o1", dm.At(), strings.Repeat("x", n))); !errors.Is(err, chat.ErrGone) {
				t.Errorf("an edit of %d characters, which Slack does not take: %v", n, err)
			}
		}
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "chat.postMessage", Error: "invalid_blocks"})
		if _, err := a.Send(t.Context(), text("o2", dm.At(), lines)); err != nil {
			t.Errorf("without its blocks: %v", err)
		}
		if all := dm.(*room).c.FromBots(); len(all) != 2 || len(all[1].Blocks) != 0 {
			t.Errorf("%d messages", len(all))
		}
	})
}

func TestAButtonIsPressedAndAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann := adaptertest.NewInbox(t), w.people[0]
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		root := w.closed.Say(ann, w.bots[""].User().Mention()+" do it").TS
		pass(time.Second)
		at := inbox.Events()[0].Address
		r, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: at, Text: chat.PlainText("May I?"), Buttons: [][]chat.Button{
			{{Label: "Yes <b>", Data: "ok:1"}, {Label: "No", Data: "no:1"}}, {{Label: strings.Repeat("long ", 40), Data: "always:1"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		press, err := w.closed.Press(ann, r.ID, "hermesd_2")
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		all := inbox.Events()
		in := all[len(all)-1]
		if in.Kind != chat.Callback || in.Text != "no:1" || in.Address != at || in.ID != r.ID || in.Sender.ID != ann.ID() || at.Thread != root {
			t.Errorf("%+v", in)
		}
		if _, ok := press.Acked(); !ok || press.Failed() != "" {
			t.Errorf("the press is not acknowledged: %s", press.Failed())
		}
		if err := a.AnswerCallback(t.Context(), in, "noted <!channel>"); err != nil {
			t.Error(err)
		}
		if err := a.AnswerCallback(t.Context(), in, ""); err != nil {
			t.Error(err)
		}
		e := w.closed.Ephemeral()
		if len(e) != 1 || e[0].To != ann.ID() || e[0].Text != "noted &lt;!channel&gt;" {
			t.Errorf("%+v", e)
		}
		if m := w.closed.FromBots()[0]; !strings.Contains(m.Shown(), "May I?") {
			t.Errorf("%s", m.Shown())
		}
	})
}

func TestPressesWhileNothingCanBeStored(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann := adaptertest.NewInbox(t), w.people[0]
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		inbox.Fail(true)
		slash := w.open.Slash(w.bots[""], ann, "/hermes", "status")
		pass(10 * time.Second)
		if _, ok := slash.Acked(); ok || slash.Failed() == "" {
			t.Error("a command is acknowledged that is not stored")
		}
		inbox.Fail(false)
		eventually(t, "the command is missing", time.Minute, func() bool { return len(inbox.Events()) == 1 })
	})
}

func TestACommandWhereTheBotIsNot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann := adaptertest.NewInbox(t), w.people[0]
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		private := w.team.AddChannel(sim.ChannelOptions{Private: true, Members: w.people})
		private.Slash(w.bots[""], ann, "/hermes", "status")
		pass(time.Second)
		to := inbox.Events()[0].Address
		for i := range 5 {
			if _, err := a.Send(t.Context(), text(fmt.Sprint("o", i), to, "well")); err != nil {
				t.Errorf("answer %d: %v", i, err)
			}
		}
		if _, err := a.Send(t.Context(), text("o6", to, "once more")); outcome(t, err).Outcome != chat.Permanent || !strings.Contains(err.Error(), "/invite") {
			t.Errorf("a sixth answer: %v", err)
		}
		e := private.Ephemeral()
		if len(e) != 5 || e[0].To != ann.ID() || e[0].Text != "well" || len(private.FromBots()) != 0 {
			t.Errorf("%+v", e)
		}
		private.Slash(w.bots[""], ann, "/hermes", "status")
		pass(31 * time.Minute)
		if _, err := a.Send(t.Context(), text("o7", to, "late")); outcome(t, err).Outcome != chat.Permanent || !strings.Contains(err.Error(), "/invite") {
			t.Errorf("half an hour later: %v", err)
		}
		private.Slash(w.bots[""], ann, "/hermes", "status")
		pass(time.Second)
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Match: func(c sim.Call) bool { return strings.Contains(c.Method, "response") }, Error: "expired_url", Status: 404})
		if _, err := a.Send(t.Context(), text("o8", to, "expired")); err == nil || outcome(t, err).Outcome != chat.Permanent || !strings.Contains(err.Error(), "too late") {
			t.Errorf("an address that has expired: %v", err)
		}
		if h := w.srv.Recorder().Calls(); len(h) == 0 || !slices.ContainsFunc(h, func(c sim.Call) bool { return strings.Contains(c.Method, "response") }) {
			t.Errorf("no response URL was used")
		}
		// Where the bot can write, the answer is an ordinary message.
		w.open.Slash(w.bots[""], ann, "/hermes", "status")
		pass(time.Second)
		if _, err := a.Send(t.Context(), text("o9", w.Group("", 0).At(), "ordinary")); err != nil {
			t.Error(err)
		}
	})
}

func TestReactions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("").(*slack.Adapter)
		m := w.open.Say(w.people[0], "hello")
		to := w.thread(w.open, "")
		marks := func() (out []string) {
			for _, r := range w.open.Messages()[0].Reactions {
				if len(r.Users) > 0 {
					out = append(out, r.Name)
				}
			}
			return out
		}
		for _, c := range []struct {
			is   chat.Reaction
			want []string
		}{
			{chat.ReactionSeen, []string{"eyes"}}, {chat.ReactionSeen, []string{"eyes"}},
			{chat.ReactionAnswered, []string{"white_check_mark"}}, {chat.ReactionAnswered, []string{"white_check_mark"}},
		} {
			if err := a.React(t.Context(), to, m.TS, c.is); err != nil || !slices.Equal(marks(), c.want) {
				t.Errorf("%s: %v, %v", c.is, marks(), err)
			}
		}
		if err := a.React(t.Context(), to, m.TS, chat.ReactionFailed); err != nil || !slices.Contains(marks(), "x") {
			t.Errorf("lost: %v, %v", marks(), err)
		}
		if err := a.React(t.Context(), to, "slash.1.2", chat.ReactionSeen); err != nil {
			t.Errorf("a command: %v", err)
		}
		w.bots[""].SetScopes("chat:write")
		if err := a.React(t.Context(), to, m.TS, chat.ReactionSeen); err == nil || !strings.Contains(err.Error(), "reactions:write") {
			t.Errorf("a missing scope: %v", err)
		}
		w.change = func(c *slack.Config) { c.Reactions = false }
		if err := w.Connect("").(*slack.Adapter).React(t.Context(), to, m.TS, chat.ReactionSeen); err != nil {
			t.Errorf("switched off: %v", err)
		}
	})
}

func TestItShowsThatItWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("").(*slack.Adapter)
		dm, root := w.people[0].OpenAssistant(w.bots[""])
		to := w.thread(dm, root)
		for range 10 { // as often as the gateway likes
			if err := a.Typing(t.Context(), to); err != nil {
				t.Fatal(err)
			}
			pass(4 * time.Second)
		}
		if dm.Status(root) == "" {
			t.Error("nothing shows")
		}
		if n := len(w.srv.Recorder().Calls("assistant.threads.setStatus")); n != 2 {
			t.Errorf("%d calls in 40 s", n)
		}
		if _, err := a.Send(t.Context(), text("o1", to, "done")); err != nil {
			t.Fatal(err)
		}
		if s := dm.Status(root); s != "" {
			t.Errorf("still %q", s)
		}
		if err := a.Typing(t.Context(), to); err != nil || dm.Status(root) == "" {
			t.Errorf("after an answer nothing shows: %v", err)
		}
		to.Thread = ""
		if err := a.Typing(t.Context(), to); err != nil {
			t.Errorf("outside of threads: %v", err)
		}
	})
}

func TestFilesGoOut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.txt")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("").(*slack.Adapter)
		at := w.thread(w.open, w.open.Say(w.people[0], "root").TS)
		file := func(id, path string) chat.Outbound {
			return chat.Outbound{ID: id, To: at, Text: chat.PlainText("look <here>"), File: &chat.File{Kind: chat.Document, Path: path, Name: `../a"b.txt`}}
		}
		r, err := a.Send(t.Context(), file("o1", path))
		m := w.open.FromBots()
		if err != nil || r.ID == "" || len(m) != 1 || len(m[0].Files) != 1 || string(m[0].Files[0].Data) != "content" || m[0].Files[0].Name != "a_b.txt" ||
			m[0].Text != "look &lt;here&gt;" || m[0].Thread != at.Thread {
			t.Fatalf("%+v, %v, %+v", r, err, m)
		}
		for name, path := range map[string]string{"none": filepath.Join(dir, "none"), "a folder": dir, "empty": filepath.Join(dir, "empty")} {
			if _, err := a.Send(t.Context(), file("o2", path)); outcome(t, err).Outcome != chat.Permanent {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, c := range []struct {
			name  string
			fault sim.Fault
			want  chat.Outcome
			there bool
		}{
			{"before the upload", sim.Fault{Kind: sim.Cut, Method: "files.getUploadURLExternal"}, chat.Transient, false},
			{"after the address", sim.Fault{Kind: sim.CutAfter, Method: "files.getUploadURLExternal"}, chat.Transient, false},
			{"before it is made known", sim.Fault{Kind: sim.Cut, Method: "files.completeUploadExternal"}, chat.Uncertain, false},
			{"after it is made known", sim.Fault{Kind: sim.CutAfter, Method: "files.completeUploadExternal"}, chat.Uncertain, true},
			{"a limit", sim.Fault{Kind: sim.Fail, Method: "files.completeUploadExternal", Error: "ratelimited", RetryAfter: time.Minute}, chat.Transient, false},
			{"a type that is not taken", sim.Fault{Kind: sim.Fail, Method: "files.completeUploadExternal", Error: "blocked_file_type"}, chat.Permanent, false},
		} {
			w.srv.Inject(c.fault)
			n, out := len(w.open.FromBots()), file("file "+c.name, path)
			_, err := a.Send(t.Context(), out)
			if se := outcome(t, err); se.Outcome != c.want {
				t.Errorf("%s: %v, want outcome %v", c.name, err, c.want)
			}
			if there := len(w.open.FromBots()) > n; there != c.there {
				t.Fatalf("%s: it is there: %v", c.name, there)
			}
			// A new process asks, after a crash.
			r, ok, err := a.Find(t.Context(), out)
			if err != nil || ok != c.there || ok && r.ID == "" {
				t.Errorf("%s: found %v as %+v, %v", c.name, ok, r, err)
			}
			w.srv.ClearFaults()
		}
	})
}

func TestAFileThatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Options{}, sim.AppOptions{Scopes: slices.DeleteFunc(sim.AllScopes(), func(s string) bool { return s == "files:read" })})
		inbox, dm := adaptertest.NewInbox(t), w.people[0].DM(w.bots[""])
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		dm.Upload(w.people[0], "", &sim.File{Name: "a.txt", Data: []byte("x")})
		pass(time.Second)
		var b strings.Builder
		err := a.Fetch(t.Context(), inbox.Events()[0].Files[0], &b, 1<<20)
		if err == nil || !strings.Contains(err.Error(), "files:read") || b.Len() != 0 {
			t.Errorf("%v, %d bytes", err, b.Len())
		}
	})
}

func TestEditsOfPeople(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann := adaptertest.NewInbox(t), w.people[0]
		running(t, w.Connect(""), inbox)
		m := w.open.Say(ann, "one")
		pass(time.Second)
		if err := w.open.Edit(m.TS, "two"); err != nil {
			t.Fatal(err)
		}
		if err := w.open.Unfurl(m.TS, "a page"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if err := w.open.Delete(m.TS); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		all := inbox.Events()
		if len(all) != 3 || all[1].Kind != chat.Edit || all[1].EditedKey != all[0].IdempotencyKey || all[1].Text != "two" || all[1].Address != all[0].Address || all[2].IgnoreRule != "message_deleted" {
			t.Errorf("%q", said(inbox))
		}
	})
}

func TestTheAdapterSpeaksTheLanguageOfThePeople(t *testing.T) {
	de, err := i18n.For("de")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T, w *world) {
		w.words = de
		a := w.Connect("").(*slack.Adapter)
		dm, root := w.people[0].OpenAssistant(w.bots[""])
		if err := a.Typing(t.Context(), w.thread(dm, root)); err != nil || dm.Status(root) != "denkt nach …" {
			t.Errorf("the status is %q, %v", dm.Status(root), err)
		}
	})
	if raw := slack.Manifest(nil, de); !strings.Contains(raw, `"description": "Fragen, oder einen Befehl geben"`) || !strings.Contains(raw, `"usage_hint": "[Befehl oder Frage]"`) {
		t.Errorf("the manifest:\n%s", raw)
	}
}

func TestManifest(t *testing.T) {
	raw := slack.Manifest([]chat.CommandInfo{{Name: "new", Help: "Start\nover"}, {Name: "/status", Help: "x"}, {Name: "new"}, {Name: "hermes"}, {Name: "a b"}, {Name: "usage"}}, i18n.Printer{})
	var m struct {
		Features struct {
			Commands []struct{ Command, Description string } `json:"slash_commands"`
			Home     map[string]bool                         `json:"app_home"`
		}
		OAuth struct {
			Scopes struct{ Bot []string }
		} `json:"oauth_config"`
		Settings struct {
			Socket bool `json:"socket_mode_enabled"`
			Events struct {
				Bot []string `json:"bot_events"`
			} `json:"event_subscriptions"`
		}
	}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(m.Features.Commands)
	if got != "[{/hermes Ask, or give any command} {/new Start over} {/usage /usage}]" {
		t.Errorf("commands %s", got)
	}
	if !m.Settings.Socket || !slices.Contains(m.Settings.Events.Bot, "message.im") || m.Features.Home["messages_tab_read_only_enabled"] {
		t.Errorf("%s", raw)
	}
	// An app that is made of it can do everything.
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Options{}, sim.AppOptions{Scopes: m.OAuth.Scopes.Bot, Events: m.Settings.Events.Bot})
		inbox, dm := adaptertest.NewInbox(t), w.Direct("", 0)
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		dm.Say("hello")
		w.closed.Say(w.people[0], w.bots[""].User().Mention()+" hello")
		pass(time.Second)
		if len(inbox.Events()) != 2 || a.Health().Error != "" {
			t.Errorf("%q, %+v", said(inbox), a.Health())
		}
	})
}
