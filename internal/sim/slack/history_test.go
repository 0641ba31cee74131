package slack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"hermesd/internal/sim/slack"
)

func shown(list []message) string {
	var out []string
	for _, m := range list {
		out = append(out, m.Text)
	}
	return strings.Join(out, " ")
}

// TestHistory checks bounds, order, hidden messages and read access.
func TestHistory(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	var ts []string
	for i := range 5 {
		ts = append(ts, p.room.Say(p.ann, fmt.Sprint("m", i)).TS)
	}
	p.room.Reply(p.ann, ts[1], "hidden")
	p.room.Post(slack.Post{From: p.ann, Text: "shown", Thread: ts[1], Broadcast: true})
	_ = p.room.Delete(ts[4])
	for _, tc := range []struct {
		want  string
		pairs []string
	}{
		{"shown m3 m2 m1 m0", nil},
		{"shown m3", []string{"oldest", ts[2]}},
		{"shown m3 m2", []string{"oldest", ts[2], "inclusive", "true"}},
		{"m1 m0", []string{"latest", ts[2]}},
		{"m2", []string{"latest", ts[2], "inclusive", "true", "limit", "1"}},
		{"m2", []string{"oldest", ts[1], "latest", ts[3]}},
		{"shown m3 m2 m1 m0", []string{"oldest", "0", "latest", "now", "limit", "0"}},
		{"shown m3 m2 m1 m0", []string{"oldest", "1000000000"}},
		{"", []string{"oldest", "9999999999.5"}},
		{"!invalid_ts_oldest", []string{"oldest", "soon"}},
		{"!invalid_ts_latest", []string{"latest", "-1"}},
		{"!invalid_limit", []string{"limit", "many"}},
		{"!invalid_cursor", []string{"cursor", "AAAA"}},
	} {
		a := p.call(t, "conversations.history", append(tc.pairs, "channel", p.room.ID())...)
		got := shown(a.Messages)
		if !a.OK {
			got = "!" + a.Error
		}
		if got != tc.want {
			t.Errorf("%v: %q, want %q", tc.pairs, got, tc.want)
		}
	}
	all := p.call(t, "conversations.history", "channel", p.room.ID()).Messages
	if all[3].Replies != 2 || all[3].Thread != ts[1] || all[0].Subtype != "thread_broadcast" {
		t.Errorf("thread: %+v", all)
	}
	outside := p.team.AddChannel(slack.ChannelOptions{Name: "outside"})
	mustRefuse(t, p.call(t, "conversations.history", "channel", outside.ID()), "not_in_channel")
	mustRefuse(t, p.call(t, "conversations.history"), "invalid_arguments")
	p.bot.SetScopes("im:history")
	if a := p.call(t, "conversations.history", "channel", p.room.ID()); a.Error != "missing_scope" || a.Needed != "channels:history" {
		t.Errorf("scope: %+v", a)
	}
}

func TestReplies(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	root := p.room.Say(p.ann, "root").TS
	var ts []string
	for i := range 4 {
		ts = append(ts, p.room.Reply(p.ann, root, fmt.Sprint("r", i)).TS)
	}
	for _, tc := range []struct {
		want  string
		pairs []string
	}{
		{"root r0 r1 r2 r3", []string{"ts", root}},
		{"root r2 r3", []string{"ts", root, "oldest", ts[1]}},
		{"root r1 r2 r3", []string{"ts", root, "oldest", ts[1], "inclusive", "1"}},
		{"root r0", []string{"ts", root, "latest", ts[1]}},
		{"r0", []string{"ts", ts[0]}},
		{"!thread_not_found", []string{"ts", "1.000001"}},
		{"!invalid_arguments", nil},
	} {
		a := p.call(t, "conversations.replies", append(tc.pairs, "channel", p.room.ID())...)
		got := shown(a.Messages)
		if !a.OK {
			got = "!" + a.Error
		}
		if got != tc.want {
			t.Errorf("%v: %q, want %q", tc.pairs, got, tc.want)
		}
	}
}

// TestMetadataIsShownToWhoAsks checks that metadata is returned on request,
// with which an app finds its own messages.
func TestMetadataIsShownToWhoAsks(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	meta := `{"event_type":"hermes","event_payload":{"id":"row-1"}}`
	root := p.post1(t, p.room, "x", "metadata", meta)
	p.post1(t, p.room, "y", "metadata", meta, "thread_ts", root)
	for _, method := range []string{"conversations.history", "conversations.replies"} {
		for _, ask := range []string{"", "true"} {
			a := p.call(t, method, "channel", p.room.ID(), "ts", root, "include_all_metadata", ask)
			for _, m := range a.Messages {
				if want := map[string]string{"true": meta}[ask]; string(m.Metadata) != want {
					t.Errorf("%s, %q: %s", method, ask, m.Metadata)
				}
			}
		}
	}
}

// TestRestrictedApps checks that they get one page of 15 messages per minute.
func TestRestrictedApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{}, slack.AppOptions{Restricted: true})
		for range 20 {
			p.room.Say(p.ann, "x")
		}
		a := p.call(t, "conversations.history", "channel", p.room.ID(), "limit", "100")
		if len(a.Messages) != 15 || !a.HasMore {
			t.Errorf("%d messages, more %v", len(a.Messages), a.HasMore)
		}
		a = p.call(t, "conversations.history", "channel", p.room.ID())
		if a.Status != 429 || a.Error != "ratelimited" || a.Header.Get("Retry-After") != "60" {
			t.Errorf("second: %+v", a)
		}
		mustOK(t, p.call(t, "conversations.replies", "channel", p.room.ID(), "ts", p.room.Messages()[0].TS))
		mustOK(t, p.call(t, "chat.postMessage", "channel", p.room.ID(), "text", "x"))
		if c := p.Recorder().Counts(); c.Limited != 1 {
			t.Errorf("counts: %+v", c)
		}
	})
}

// TestPagesHoldEverythingOnce checks pages of any size; no ts appears twice.
func TestPagesHoldEverythingOnce(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	var said []string
	root := p.dm.Say(p.ann, "root").TS
	rapid.Check(t, func(rt *rapid.T) {
		for range min(30-len(said), rapid.IntRange(0, 4).Draw(rt, "new")) {
			said = append(said, p.room.Say(p.ann, fmt.Sprint(len(said))).TS)
			p.dm.Reply(p.ann, root, fmt.Sprint(len(said)-1))
		}
		limit := fmt.Sprint(rapid.IntRange(1, 12).Draw(rt, "limit"))
		pages := func(method string, ch *slack.Channel) (list []message) {
			cursor := ""
			for {
				a := p.call(t, method, "channel", ch.ID(), "ts", root, "limit", limit, "cursor", cursor)
				if !a.OK || a.HasMore != (a.Meta.Next != "") {
					rt.Fatalf("%s: %+v", method, a)
				}
				if method == "conversations.replies" {
					a.Messages = a.Messages[1:]
				}
				list = append(list, a.Messages...)
				if cursor = a.Meta.Next; cursor == "" {
					return list
				}
			}
		}
		down, up := pages("conversations.history", p.room), pages("conversations.replies", p.dm)
		slices.Reverse(down)
		if len(down) != len(said) || len(up) != len(said) {
			rt.Fatalf("%d and %d of %d messages", len(down), len(up), len(said))
		}
		for i := range said {
			if down[i].TS != said[i] || up[i].Text != fmt.Sprint(i) || i > 0 && said[i] <= said[i-1] {
				rt.Fatalf("message %d: %+v, %+v", i, down[i], up[i])
			}
		}
	})
}
