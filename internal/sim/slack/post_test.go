package slack_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/slack"
)

func section(n int) string {
	return fmt.Sprintf(`{"type":"section","text":{"type":"mrkdwn","text":%q}}`, strings.Repeat("x", n))
}

// TestRefusalsOfMessages checks the error codes of Slack.
func TestRefusalsOfMessages(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	p.bot.SetScopes("chat:write")
	room, own := p.room.ID(), p.post1(t, p.room, "mine")
	theirs := p.room.Say(p.ann, "theirs").TS
	public := p.team.AddChannel(slack.ChannelOptions{Name: "public", Members: []*slack.User{p.ann}})
	private := p.team.AddChannel(slack.ChannelOptions{Name: "private", Private: true, Members: []*slack.User{p.ann}})
	archived := p.team.AddChannel(slack.ChannelOptions{Name: "old", Members: []*slack.User{p.bot.User()}})
	archived.Archive(true)
	quiet := p.team.AddChannel(slack.ChannelOptions{Name: "quiet", Members: []*slack.User{p.bot.User()}})
	quiet.ReadOnly(true)
	stranger := p.team.AddUser(slack.Person{})
	long := func(n int) string { return strings.Repeat("é", n) }
	for _, tc := range []struct {
		want, method string
		pairs        []string
	}{
		{"invalid_arguments", "chat.postMessage", []string{"text", "x"}},
		{"channel_not_found", "chat.postMessage", []string{"channel", "C0", "text", "x"}},
		{"channel_not_found", "chat.postMessage", []string{"channel", private.ID(), "text", "x"}},
		{"not_in_channel", "chat.postMessage", []string{"channel", public.ID(), "text", "x"}},
		{"not_in_channel", "chat.postMessage", []string{"channel", "#public", "text", "x"}},
		{"is_archived", "chat.postMessage", []string{"channel", archived.ID(), "text", "x"}},
		{"restricted_action_read_only_channel", "chat.postMessage", []string{"channel", quiet.ID(), "text", "x"}},
		{"no_text", "chat.postMessage", []string{"channel", room}},
		{"no_text", "chat.postMessage", []string{"channel", room, "text", " \n"}},
		{"no_text", "chat.postMessage", []string{"channel", room, "blocks", "[]", "attachments", "[]"}},
		{"msg_too_long", "chat.postMessage", []string{"channel", room, "markdown_text", long(12001)}},
		{"markdown_text_conflict", "chat.postMessage", []string{"channel", room, "markdown_text", "x", "text", "x"}},
		{"invalid_blocks_format", "chat.postMessage", []string{"channel", room, "blocks", "{"}},
		{"invalid_blocks", "chat.postMessage", []string{"channel", room, "blocks", `[{"text":{"text":"x"}}]`}},
		{"invalid_blocks", "chat.postMessage", []string{"channel", room, "blocks", "[" + section(3001) + "]"}},
		{"invalid_blocks", "chat.postMessage", []string{"channel", room, "blocks", `[{"type":"section","text":7}]`}},
		{"invalid_blocks", "chat.postMessage", []string{"channel", room, "blocks", "[" + section(1) + strings.Repeat(","+section(1), 50) + "]"}},
		{"msg_blocks_too_long", "chat.postMessage", []string{"channel", room, "blocks", "[" + section(3000) + strings.Repeat(","+section(3000), 4) + "]"}},
		{"msg_blocks_too_long", "chat.postMessage", []string{"channel", room, "blocks", fmt.Sprintf(`[{"type":"markdown","text":%q}]`, long(12001))}},
		{"invalid_attachments", "chat.postMessage", []string{"channel", room, "attachments", "x"}},
		{"invalid_metadata_format", "chat.postMessage", []string{"channel", room, "text", "x", "metadata", "x"}},
		{"invalid_metadata_schema", "chat.postMessage", []string{"channel", room, "text", "x", "metadata", `{"event_type":"x"}`}},
		{"metadata_too_large", "chat.postMessage", []string{"channel", room, "text", "x", "metadata", `{"event_type":"x","event_payload":{"a":"` + long(10000) + `"}}`}},
		{"invalid_thread_ts", "chat.postMessage", []string{"channel", room, "text", "x", "thread_ts", "0"}},
		{"thread_not_found", "chat.postMessage", []string{"channel", room, "text", "x", "thread_ts", "1.000001"}},

		{"message_not_found", "chat.update", []string{"channel", room, "ts", "1.000001", "text", "x"}},
		{"cant_update_message", "chat.update", []string{"channel", room, "ts", theirs, "text", "x"}},
		{"no_text", "chat.update", []string{"channel", room, "ts", own}},
		{"msg_too_long", "chat.update", []string{"channel", room, "ts", own, "text", long(4001)}},
		{"invalid_arguments", "chat.update", []string{"channel", room, "text", "x"}},
		{"cant_delete_message", "chat.delete", []string{"channel", room, "ts", theirs}},
		{"message_not_found", "chat.delete", []string{"channel", room, "ts", "1.000001"}},
		{"user_not_in_channel", "chat.postEphemeral", []string{"channel", room, "user", stranger.ID(), "text", "x"}},
		{"unknown_method", "chat.shout", nil},
		{"missing_scope", "conversations.history", []string{"channel", room}},
	} {
		a := p.call(t, tc.method, tc.pairs...)
		if a.Status != 200 {
			t.Errorf("%s: HTTP %d", tc.want, a.Status)
		}
		mustRefuse(t, a, tc.want)
		if calls := p.Recorder().Calls(); calls[len(calls)-1].Error != tc.want || calls[len(calls)-1].Handled {
			t.Errorf("%s: record %+v", tc.want, calls[len(calls)-1])
		}
	}
	if n := len(p.room.FromBots()); n != 1 {
		t.Errorf("%d messages", n)
	}
	for _, code := range []string{"token_revoked", "account_inactive", "invalid_auth"} {
		p.bot.Refuse(code)
		mustRefuse(t, p.call(t, "auth.test"), code)
	}
}

func TestWhatSuccessLooksLike(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	meta := `{"event_type":"hermes","event_payload":{"outbox":"row-1"}}`
	a := p.call(t, "chat.postMessage", "channel", "#general", "text", "x", "metadata", meta)
	mustOK(t, a)
	sent, ok := a.Raw["message"].(map[string]any)
	if raw, err := json.Marshal(sent["metadata"]); !ok || err != nil || string(raw) != `{"event_payload":{"outbox":"row-1"},"event_type":"hermes"}` || sent["ts"] != a.TS {
		t.Errorf("answer: %v", a.Raw)
	}
	first := a.TS
	if a := p.call(t, "chat.postMessage", "channel", p.ann.ID(), "text", "to a person"); string(a.Channel) != `"`+p.dm.ID()+`"` {
		t.Errorf("to a user: %s", a.Channel)
	}
	a = p.call(t, "chat.postMessage", "channel", p.room.ID(), "text", strings.Repeat("é", 40001))
	if last := p.room.FromBots()[1]; a.Warning != "message_truncated" || len([]rune(last.Text)) != 40000 {
		t.Errorf("truncated: %q, %d", a.Warning, len([]rune(last.Text)))
	}
	mustOK(t, p.call(t, "chat.update", "channel", p.room.ID(), "ts", first, "markdown_text", strings.Repeat("x", 12000)))
	if m := p.room.FromBots()[0]; string(m.Metadata) != meta || len(m.Versions) != 1 || m.Versions[0] != "x" || m.Changed.IsZero() {
		t.Errorf("edited: %+v", m)
	}
	if h := a.Header.Get("X-OAuth-Scopes"); !strings.Contains(h, "chat:write") {
		t.Errorf("scopes: %q", h)
	}
}

func TestThreads(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	root := p.room.Say(p.ann, "root").TS
	mustOK(t, p.call(t, "assistant.threads.setStatus", "channel_id", p.room.ID(), "thread_ts", root, "status", "is thinking"))
	reply := p.post1(t, p.room, "reply", "thread_ts", root)
	if p.room.Status(root) != "" {
		t.Error("the status stays after the answer")
	}
	p.post1(t, p.room, "to the reply", "thread_ts", reply)
	p.post1(t, p.room, "to all", "thread_ts", root, "reply_broadcast", "true")
	if got := texts(p.room.Thread(root)); got != "root|reply|to the reply|to all" {
		t.Errorf("thread: %s", got)
	}
	_ = p.room.Delete(root)
	if got := texts(p.room.Thread(root)); !strings.HasPrefix(got, "This message was deleted.|reply") {
		t.Errorf("after the delete: %s", got)
	}
	p.post1(t, p.room, "late", "thread_ts", root) // a tombstone keeps the thread
}

func TestEditWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{EditWindow: time.Minute}, slack.AppOptions{})
		ts := p.post1(t, p.room, "x")
		mustOK(t, p.call(t, "chat.update", "channel", p.room.ID(), "ts", ts, "text", "y"))
		<-time.After(61 * time.Second)
		mustRefuse(t, p.call(t, "chat.update", "channel", p.room.ID(), "ts", ts, "text", "z"), "edit_window_closed")
	})
}

// TestWaysToSayIt checks forms and JSON, with and without a charset, and the
// positions of the token.
func TestWaysToSayIt(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	room := p.room.ID()
	for _, tc := range []struct{ name, kind, token, body, refused, warning string }{
		{"json", "application/json; charset=utf-8", p.bot.Token(), `{"channel":"` + room + `","text":"x","blocks":null}`, "", ""},
		{"json without charset", "application/json", p.bot.Token(), `{"channel":"` + room + `","text":"x"}`, "", "missing_charset"},
		{"blocks as JSON", "application/json; charset=utf-8", p.bot.Token(), `{"channel":"` + room + `","blocks":[` + section(1) + `]}`, "", ""},
		{"form with charset", "application/x-www-form-urlencoded; charset=utf-8", p.bot.Token(), "channel=" + room + "&text=x", "", "superfluous_charset"},
		{"token in the form", "application/x-www-form-urlencoded", "", "token=" + p.bot.Token() + "&text=x&channel=" + room, "", ""},
		{"token in JSON", "application/json; charset=utf-8", "", `{"token":"` + p.bot.Token() + `","text":"x","channel":"` + room + `"}`, "not_authed", ""},
		{"broken json", "application/json; charset=utf-8", p.bot.Token(), `{"channel":`, "invalid_json", ""},
		{"an array", "application/json; charset=utf-8", p.bot.Token(), `[1]`, "json_not_object", ""},
		{"broken form", "application/x-www-form-urlencoded", p.bot.Token(), "%zz", "invalid_form_data", ""},
		{"other type", "text/plain", p.bot.Token(), "x", "invalid_post_type", ""},
		{"no type", "", p.bot.Token(), "x", "missing_post_type", ""},
		{"broken multipart", "multipart/form-data; boundary=b", p.bot.Token(), "--b\r\nx", "invalid_form_data", ""},
		{"multipart", "multipart/form-data; boundary=b", p.bot.Token(),
			"--b\r\nContent-Disposition: form-data; name=\"channel\"\r\n\r\n" + room + "\r\n--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nx\r\n--b--\r\n", "", ""},
		{"too large", "application/json; charset=utf-8", p.bot.Token(), strings.Repeat(" ", 5<<20), "request_too_large", ""},
	} {
		a, err := p.post(t.Context(), tc.token, p.APIURL()+"chat.postMessage", tc.kind, tc.body)
		if err != nil || a.Error != tc.refused || a.OK != (tc.refused == "") || a.Warning != tc.warning {
			t.Errorf("%s: %+v, %v", tc.name, a, err)
		}
	}
	for _, c := range p.Recorder().Calls() {
		if c.Params["token"] != "" {
			t.Errorf("the recorder holds a token: %v", c.Params)
		}
	}
}

func TestReactions(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	ts := p.room.Say(p.ann, "x").TS
	p.dm.Archive(true)
	old := p.dm.Say(p.ann, "x").TS
	for _, tc := range []struct {
		want, method string
		pairs        []string
	}{
		{"", "reactions.add", []string{"name", "eyes", "timestamp", ts, "channel", p.room.ID()}},
		{"already_reacted", "reactions.add", []string{"name", ":eyes:", "timestamp", ts, "channel", p.room.ID()}},
		{"invalid_name", "reactions.add", []string{"timestamp", ts, "channel", p.room.ID()}},
		{"no_item_specified", "reactions.add", []string{"name", "eyes", "channel", p.room.ID()}},
		{"message_not_found", "reactions.add", []string{"name", "eyes", "timestamp", "1.000001", "channel", p.room.ID()}},
		{"channel_not_found", "reactions.add", []string{"name", "eyes", "timestamp", ts, "channel", "C0"}},
		{"is_archived", "reactions.add", []string{"name", "eyes", "timestamp", old, "channel", p.dm.ID()}},
		{"no_reaction", "reactions.remove", []string{"name", "tada", "timestamp", ts, "channel", p.room.ID()}},
		{"", "reactions.remove", []string{"name", "eyes", "timestamp", ts, "channel", p.room.ID()}},
		{"no_reaction", "reactions.remove", []string{"name", "eyes", "timestamp", ts, "channel", p.room.ID()}},
	} {
		if a := p.call(t, tc.method, tc.pairs...); a.Error != tc.want {
			t.Errorf("%s %v: %q, want %q", tc.method, tc.pairs, a.Error, tc.want)
		}
	}
	if r := p.room.Messages()[0].Reactions; len(r) != 0 {
		t.Errorf("reactions: %+v", r)
	}
}
