package discord_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/discord"
)

func TestASendThatIsTriedAgainIsOneMessage(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		w.srv.Inject(sim.Fault{Kind: sim.CutAfter, Route: sim.RouteCreateMessage})
		if _, err := r.send("1", room.At(), "hello"); sendError(t, err).Outcome != chat.Uncertain {
			t.Fatal(err)
		}
		receipt := r.sent("1", room.At(), "hello")
		r.sent("2", room.At(), "hello")
		if got := room.Visible(); len(got) != 2 {
			t.Errorf("visible: %q", got)
		}
		if calls := w.srv.Recorder().Calls(sim.RouteCreateMessage); calls[0].Message != receipt.ID {
			t.Errorf("the second attempt made %s, the first %s", receipt.ID, calls[0].Message)
		}
	})
}

func TestAnUncertainSendIsClearedUp(t *testing.T) {
	const long = "a text of which nobody would think that it has been said twice in one chat"
	for _, c := range []struct {
		name, text string
		kind       sim.Kind
		gateway    bool // tells of the message
		restart    bool
		after      string // what somebody says afterwards
		found      bool
	}{
		{name: "told by the gateway", text: "yes", kind: sim.CutAfter, gateway: true, found: true},
		{name: "by the history", text: "yes", kind: sim.CutAfter, restart: true, found: true},
		{name: "by the history, behind others", text: long, kind: sim.CutAfter, restart: true, after: "and?", found: true},
		{name: "short, behind others: rather twice than never", text: "yes", kind: sim.CutAfter, restart: true, after: "and?"},
		{name: "it never arrived", text: "yes", kind: sim.Cut, restart: true},
		{name: "it never arrived, but the same was said before", text: "earlier", kind: sim.Cut, restart: true, after: "and?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				r, room := w.start(t), w.Direct("", 0)
				r.sent("0", room.At(), "earlier")
				room.Say("say yes")
				pass(time.Second)
				if !c.gateway { // it is cut off before it hears of its own message
					_ = r.end()
				}
				w.srv.Inject(sim.Fault{Kind: c.kind, Route: sim.RouteCreateMessage})
				m := chat.Outbound{ID: "1", To: room.At(), Text: chat.PlainText(c.text)}
				if _, err := r.a.Send(t.Context(), m); sendError(t, err).Outcome != chat.Uncertain {
					t.Fatal(err)
				}
				pass(time.Second)
				if c.after != "" {
					room.Say(c.after)
				}
				if c.restart {
					r = w.start(t)
				}
				receipt, ok, err := r.a.Find(t.Context(), m)
				if ok != c.found || err != nil {
					t.Fatalf("found %v, %v", ok, err)
				}
				if ok && receipt.ID != w.srv.Recorder().Calls(sim.RouteCreateMessage)[1].Message {
					t.Errorf("found %s", receipt.ID)
				}
			})
		})
	}
}

func TestWhatCannotBeLookedUpStaysUnknown(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 500, Route: sim.RouteMessages})
		if _, ok, err := r.a.Find(t.Context(), chat.Outbound{ID: "1", To: room.At(), Text: chat.PlainText("x")}); ok || err == nil {
			t.Errorf("found %v, %v", ok, err)
		}
		for range 600 {
			room.Say("x")
		}
		if _, ok, err := r.a.Find(t.Context(), chat.Outbound{ID: "1", To: room.At(), Text: chat.PlainText("x")}); ok || err == nil || !strings.Contains(err.Error(), "further back") {
			t.Errorf("found %v, %v", ok, err)
		}
	})
}

// Nothing waits inside a send: neither for a 429 nor for an empty bucket.
func TestRateLimitsAreSaidAndNotWaitedFor(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room, other := w.start(t), w.Direct("", 0), w.Direct("", 1)
		w.srv.SetLimits(sim.Limits{Messages: sim.Rate{Requests: 2, Per: 5 * time.Second}})
		begin := time.Now()
		r.sent("1", room.At(), "one")
		r.sent("2", room.At(), "two")
		calls := len(w.srv.Recorder().Calls(sim.RouteCreateMessage))
		_, err := r.send("3", room.At(), "three")
		if se := sendError(t, err); se.Outcome != chat.Transient || se.RetryAfter != 5*time.Second || se.AccountWide {
			t.Errorf("%+v", se)
		}
		if n := len(w.srv.Recorder().Calls(sim.RouteCreateMessage)); n != calls {
			t.Error("a bucket that was said to be empty was called")
		}
		r.sent("4", other.At(), "another room")
		if d := time.Since(begin); d != 0 {
			t.Errorf("it took %v", d)
		}
		pass(5 * time.Second)
		r.sent("3", room.At(), "three")
		if got := strings.Join(room.Visible(), " "); got != "one two three" {
			t.Errorf("visible: %s", got)
		}
	})
}

func TestAGlobalLimitHoldsEverywhere(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room, other := w.start(t), w.Direct("", 0), w.Direct("", 1)
		w.srv.Inject(sim.Fault{RetryAfter: 1500 * time.Millisecond, Global: true, Kind: sim.Fail, Route: sim.RouteCreateMessage})
		_, err := r.send("1", room.At(), "one")
		if se := sendError(t, err); se.Outcome != chat.Transient || se.RetryAfter != 1500*time.Millisecond || !se.AccountWide {
			t.Errorf("%+v", se)
		}
		pass(time.Second)
		_, err = r.send("2", other.At(), "two")
		if se := sendError(t, err); se.Outcome != chat.Transient || se.RetryAfter != 500*time.Millisecond || !se.AccountWide {
			t.Errorf("%+v", se)
		}
		pass(500 * time.Millisecond)
		r.sent("2", other.At(), "two")
	})
}

// Who goes on calling while the address is banned stays banned.
func TestABanIsRespected(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		w.srv.Ban(10 * time.Minute)
		_, err := r.send("1", room.At(), "one")
		if se := sendError(t, err); se.Outcome != chat.Transient || !se.AccountWide || se.RetryAfter < 10*time.Minute || !strings.Contains(se.Reason, "keeps this address out") {
			t.Errorf("%+v", se)
		}
		w.srv.Ban(0)
		n := len(w.srv.Recorder().Calls())
		for range 5 {
			pass(time.Minute)
			if _, err := r.send("1", room.At(), "one"); sendError(t, err).Outcome != chat.Transient {
				t.Error(err)
			}
			if err := r.a.Typing(t.Context(), room.At()); err == nil {
				t.Error("typing was called")
			}
		}
		if m := len(w.srv.Recorder().Calls()); m != n {
			t.Errorf("%d calls during the ban", m-n)
		}
		pass(6 * time.Minute)
		r.sent("1", room.At(), "one")
	})
}

func TestWhatIsSentIsWhatWasMeant(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.next(func() { w.open[0].Say(w.people[0], "x") })
		receipt, err := r.a.Send(t.Context(), chat.Outbound{
			ID: "1", To: m.Address, ReplyTo: m.ID, Quiet: true, Text: chat.PlainText("@everyone " + w.people[1].Mention() + " *"),
			Buttons: [][]chat.Button{{{Label: "Yes", Data: "y"}, {Label: "No", Data: "n"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := w.open[0].Message(receipt.ID)
		if got.Everyone || len(got.Mentions) == 0 || got.ReplyTo != m.ID || got.Text != "@everyone "+w.people[1].Mention()+` \*` {
			t.Errorf("%+v", got)
		}
		if len(got.Buttons) != 1 || len(got.Buttons[0]) != 2 || got.Buttons[0][1].CustomID != "n" {
			t.Errorf("buttons %+v", got.Buttons)
		}
		body := w.srv.Recorder().Calls(sim.RouteCreateMessage)[0].Body
		if !strings.Contains(body, `"flags":4100`) { // and no previews
			t.Errorf("it rings: %s", body)
		}
		if err := r.a.Edit(t.Context(), receipt.ID, chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("done")}); err != nil {
			t.Fatal(err)
		}
		if got, _ = w.open[0].Message(receipt.ID); len(got.Buttons) != 0 || got.Text != "done" {
			t.Errorf("after the edit: %+v", got)
		}
	})
}

// A preview would have Discord fetch whatever address a model was made to write.
func TestNoMessageShowsPreviewsOfLinks(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.started(t)
		m := r.next(func() { w.open[0].Say(w.people[0], "x") })
		link := chat.PlainText("see https://example.org/?q=secret")
		ordinary := r.sent("1", m.Address, link.Text)
		asked := r.next(func() { w.command(t, w.closed, "new") })
		pass(time.Second)
		answer, err := r.a.Send(t.Context(), chat.Outbound{ID: "2", To: asked.Address, ReplyTo: asked.ID, Text: chat.PlainText("begun")})
		if err != nil {
			t.Fatal(err)
		}
		for _, sent := range []struct {
			what string
			id   string
			to   chat.Address
			in   *sim.Channel
		}{{"a message", ordinary.ID, m.Address, w.open[0]}, {"the answer to a command", answer.ID, asked.Address, w.closed}} {
			for _, when := range []string{"as it was sent", "after an edit"} {
				if got, ok := sent.in.Message(sent.id); !ok || !got.Bare {
					t.Errorf("%s shows previews %s: %+v", sent.what, when, got)
				}
				if err := r.a.Edit(t.Context(), sent.id, chat.Outbound{To: sent.to, Text: link}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestEveryoneIsPingedOnlyWhereThatIsAllowed(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.open[0].Allow(w.bots[""].ID(), sim.MentionEveryone)
		r := w.start(t, func(c *discord.Config) { c.AllowMentions = []string{"everyone"} })
		m := r.next(func() { w.open[0].Say(w.people[0], "x") })
		receipt := r.sent("1", m.Address, "@everyone look")
		if got, _ := w.open[0].Message(receipt.ID); !got.Everyone {
			t.Error("it was allowed")
		}
	})
}

func TestNobodyIsPingedWhereThatIsForbidden(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t, func(c *discord.Config) { c.AllowMentions = []string{"nobody"} })
		m := r.next(func() { w.open[0].Say(w.people[0], "x") })
		receipt := r.sent("1", m.Address, "<@"+w.people[0].ID+"> look")
		if got, _ := w.open[0].Message(receipt.ID); len(got.Mentions) > 0 {
			t.Errorf("pinged: %v", got.Mentions)
		}
	})
}

func TestAReplyThatIsRefusedGoesWithoutIt(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.next(func() { w.open[0].Say(w.people[0], "x") })
		join := w.open[0].Joined(w.people[1])
		reply := func(id, to string) {
			t.Helper()
			if _, err := r.a.Send(t.Context(), chat.Outbound{ID: id, To: m.Address, ReplyTo: to, Text: chat.PlainText("answer " + id)}); err != nil {
				t.Error(err)
			}
		}
		reply("1", join.ID) // no reply to that is possible
		if err := w.open[0].Delete(m.ID); err != nil {
			t.Fatal(err)
		}
		reply("2", m.ID)
		w.open[0].Deny(w.bots[""].ID(), sim.ReadMessageHistory)
		reply("3", join.ID)
		if got := w.visible(w.open[0]); got != "answer 1 | answer 2 | answer 3" {
			t.Errorf("visible: %q", got)
		}
	})
}

func TestWhatCannotBeSentIsRefusedBeforeItLeaves(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		empty := filepath.Join(t.TempDir(), "empty")
		if err := os.WriteFile(empty, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("x", 65)
		for _, c := range []struct {
			name string
			m    chat.Outbound
			has  string
		}{
			{"too long", chat.Outbound{Text: chat.PlainText(strings.Repeat("a", 2001))}, "2,000"},
			{"too long once it is escaped", chat.Outbound{Text: chat.PlainText(strings.Repeat("*", 1001))}, "2,000"},
			{"empty", chat.Outbound{Text: chat.PlainText(" \n")}, "empty"},
			{"a chat of another platform", chat.Outbound{To: chat.Address{Chat: "@name"}, Text: chat.PlainText("x")}, "not the id"},
			{"no chat", chat.Outbound{To: chat.Address{Thread: "5"}, Text: chat.PlainText("x")}, "not the id"},
			{"a path for a chat", chat.Outbound{To: chat.Address{Chat: "1/../2"}, Text: chat.PlainText("x")}, "not the id"},
			{"a long button", chat.Outbound{Text: chat.PlainText("x"), Buttons: [][]chat.Button{{{Label: "a", Data: long}}}}, "button"},
			{"too many buttons", chat.Outbound{Text: chat.PlainText("x"), Buttons: [][]chat.Button{make26()}}, "at most"},
			{"no such file", chat.Outbound{File: &chat.File{Path: "/nowhere/a"}}, "cannot be read"},
			{"a folder", chat.Outbound{File: &chat.File{Path: t.TempDir()}}, "cannot be read"},
			{"an empty file", chat.Outbound{File: &chat.File{Path: empty}}, "empty"},
		} {
			n := len(w.srv.Recorder().Calls(sim.RouteCreateMessage))
			c.m.ID = c.name
			if c.m.To == (chat.Address{}) {
				c.m.To = room.At()
			}
			_, err := r.a.Send(t.Context(), c.m)
			if se := sendError(t, err); se.Outcome != chat.Permanent || !strings.Contains(se.Reason, c.has) {
				t.Errorf("%s: %+v", c.name, se)
			}
			if len(w.srv.Recorder().Calls(sim.RouteCreateMessage)) != n {
				t.Errorf("%s: it was sent", c.name)
			}
		}
	})
}

// make26 returns more buttons than fit under a message.
func make26() []chat.Button {
	var out []chat.Button
	for i := range 26 {
		out = append(out, chat.Button{Label: "b", Data: string(rune('a' + i))})
	}
	return out
}

func TestFilesGoOut(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte("content \r\n--not the border\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		m := chat.Outbound{ID: "1", To: room.At(), Text: chat.PlainText("look"), File: &chat.File{Kind: chat.Document, Path: path, Name: "../a\"b\n.txt"}}
		receipt, err := r.a.Send(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		private := w.people[0].DM(w.bots[""])
		got, _ := private.Message(receipt.ID)
		if got.Text != "look" || len(got.Files) != 1 || string(got.Files[0].Data) != "content \r\n--not the border\r\n" || got.Files[0].Name != "a_b_.txt" {
			t.Errorf("%+v %+v", got, got.Files)
		}
		if again, err := r.a.Send(t.Context(), m); err != nil || again != receipt {
			t.Errorf("sent again: %v, %v", again, err)
		}
		_ = r.end()
		r = w.start(t)
		if found, ok, err := r.a.Find(t.Context(), m); !ok || found != receipt || err != nil {
			t.Errorf("found %v %v, %v", found, ok, err)
		}
	})
}

func TestMarksOnMessages(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		private := w.people[0].DM(w.bots[""])
		m := r.next(func() { private.Say(w.people[0], "x") })
		marks := func() string {
			got, _ := private.Message(m.ID)
			var s string
			for _, re := range got.Reactions {
				s += re.Emoji
			}
			return s
		}
		w.srv.SetLimits(sim.Limits{Other: sim.Rate{Requests: 1, Per: 250 * time.Millisecond}})
		for _, c := range []struct {
			r    chat.Reaction
			want string
		}{{chat.ReactionSeen, "👀"}, {chat.ReactionSeen, "👀"}, {chat.ReactionAnswered, "✅"}, {chat.ReactionAnswered, "✅"}} {
			if err := r.a.React(t.Context(), m.Address, m.ID, c.r); err != nil {
				t.Errorf("%s: %v", c.r, err)
			}
			if got := marks(); got != c.want {
				t.Errorf("%s: %s", c.r, got)
			}
		}
		if err := private.Delete(m.ID); err != nil {
			t.Fatal(err)
		}
		if err := r.a.React(t.Context(), m.Address, m.ID, chat.ReactionFailed); err != nil {
			t.Errorf("a message that is gone: %v", err)
		}
	})
}

func TestAChannelThatRefusesMarksIsLeftAlone(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.open[0].Deny(w.bots[""].ID(), sim.AddReactions)
		r := w.start(t)
		for range 5 {
			m := r.next(func() { w.open[0].Say(w.people[0], "x") })
			_ = r.a.React(t.Context(), m.Address, m.ID, chat.ReactionSeen) // the first one says that it may not
		}
		if n := w.srv.Recorder().Counts().Invalid; n != 1 {
			t.Errorf("%d refused calls", n)
		}
	})
}

func TestMarksCanBeSwitchedOff(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t, func(c *discord.Config) { c.Reactions = false })
		m := r.next(func() { w.open[0].Say(w.people[0], "x") })
		if err := r.a.React(t.Context(), m.Address, m.ID, chat.ReactionSeen); err != nil {
			t.Error(err)
		}
		if n := len(w.srv.Recorder().Calls(sim.RouteReact)); n != 0 {
			t.Errorf("%d marks", n)
		}
	})
}

// unread are pieces of payloads in which an ID stands for a name of several words.
var unread = map[string][]string{
	"di-554098e06a": {"@1457469483726668048 Test"},
	"di-c63cbf466f": {"@1457469483726668048 Hey"},
}

// TestPayloadsOfOthers: each message becomes one event with everything that people
// see in it.
func TestPayloadsOfOthers(t *testing.T) {
	payloads := adaptertest.SharedPayloads(t, chat.Discord)
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t, func(c *discord.Config) { c.RequireMention = false })
		before := len(r.inbox.Events())
		for _, p := range payloads {
			p.Without(unread[p.ID]...)
			kind, _, _ := strings.Cut(p.Kind, "/")
			var event struct {
				Data json.RawMessage `json:"d"`
			}
			if err := json.Unmarshal(p.Payload, &event); err != nil {
				t.Fatalf("%s: %v", p.ID, err)
			}
			if event.Data == nil {
				event.Data = p.Payload
			}
			w.bots[""].Dispatch(kind, event.Data)
			pass(20 * time.Second)
			got := r.inbox.Events()[before:]
			before += len(got)
			switch isMessage := p.Is("MESSAGE_CREATE") && p.Kind != "MESSAGE_CREATE/no_type"; {
			case isMessage && len(got) == 1:
				p.Check(t, got[0])
				if strings.Contains(got[0].Text, "cannot read") {
					t.Errorf("%s, %s: %q", p.ID, p.Kind, got[0].Text)
				}
			case isMessage || len(got) > 1:
				t.Errorf("%s, %s: %d events", p.ID, p.Kind, len(got))
			}
		}
	})
}

// Discord limits the edits of an old message for good: a new one has to be sent.
func TestAMessageThatWasEditedTooOftenIsReplaced(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.next(func() { w.people[0].DM(w.bots[""]).Say(w.people[0], "x") })
		old := r.sent("1", m.Address, "begun")
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 429, Code: 30046, Message: "Maximum number of edits to messages older than 1 hour reached.", Route: sim.RouteEditMessage})
		err := r.a.Edit(t.Context(), old.ID, chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("done")})
		if !errors.Is(err, chat.ErrGone) || !strings.Contains(err.Error(), "too often") {
			t.Errorf("%v", err)
		}
	})
}
