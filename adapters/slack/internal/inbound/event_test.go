package inbound_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/adapters/internal/mention"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

func now() time.Time { return time.Unix(1_800_000_000, 0).UTC() }

func converter(t interface{ Fatal(...any) }, change ...func(*inbound.Settings)) inbound.Converter {
	s := inbound.Settings{Settings: mention.Settings{
		RequireMention: true, AutoThread: true, Free: []string{"CFREE"}, Ignored: []string{"CIGN"}, Patterns: []string{`\bhermes\b`},
		Prompts: map[string]string{"C1": "of the channel", "100.000001": "of the thread"},
	}, Commands: []string{"status", "new"}}
	for _, f := range change {
		f(&s)
	}
	r, err := inbound.NewRules(s)
	if err != nil {
		t.Fatal(err)
	}
	return inbound.Converter{
		Me: inbound.Identity{Team: "T1", UserID: "UME", BotID: "BME", Name: "hermes"}, Rules: r,
		Joined: func(channel, thread string) bool { return thread == "100.000001" },
		Name: func(user string) (string, string) {
			if user == "U1" {
				return "Ann", "ann"
			}
			return "", ""
		},
		Room: func(channel string) inbound.ChannelInfo {
			if channel == "C1" {
				return inbound.ChannelInfo{Kind: chat.Channel, Name: "general"}
			}
			return inbound.ChannelInfo{}
		},
	}
}

// envelope wraps an event of the Events API.
func envelope(inner string) inbound.Envelope {
	return inbound.Envelope{Type: inbound.EventsAPI, ID: "e1", Payload: json.RawMessage(`{"team_id":"T1","event_id":"Ev1","event":` + inner + `}`)}
}

// a message with more fields.
func message(fields string) inbound.Envelope {
	return envelope(`{"type":"message","channel":"C1","channel_type":"channel","user":"U1","ts":"200.000002",` + fields + `}`)
}

func TestMessages(t *testing.T) {
	const us = `<@UME>`
	strict := func(s *inbound.Settings) { s.Strict = true }
	flat := func(s *inbound.Settings) { s.AutoThread = false }
	all := func(s *inbound.Settings) { s.RequireMention = false }
	for _, c := range []struct {
		name   string
		env    inbound.Envelope
		change []func(*inbound.Settings)
		want   string // kind thread text addressed rule earlier
	}{
		{"direct", message(`"text":"hi","channel":"D1","channel_type":"im"`), nil, `dm - "hi" addressed`},
		{"direct, in a thread", message(`"text":"hi","channel":"D1","channel_type":"im","thread_ts":"150.000000"`), nil, `dm 150.000000 "hi" addressed`},
		{"direct, of an unknown type", message(`"text":"hi","channel":"D1","channel_type":""`), nil, `dm - "hi" addressed`},
		{"direct, nothing readable", message(`"channel":"D1","channel_type":"im"`), nil, `dm - "[a kind of message that this bot cannot read]" addressed`},
		{"not named", message(`"text":"hi"`), nil, `group - "hi" rule=not_addressed`},
		{"named", message(`"text":"` + us + ` hi"`), nil, `thread 200.000002 "hi" addressed`},
		{"named, no threads wanted", message(`"text":"` + us + ` hi"`), []func(*inbound.Settings){flat}, `group - "hi" addressed`},
		{"named alone", message(`"text":"` + us + `"`), nil, `thread 200.000002 "@hermes" addressed`},
		{"named in the middle", message(`"text":"ask ` + us + ` this"`), nil, `thread 200.000002 "ask @hermes this" addressed`},
		{"another one with our id as beginning", message(`"text":"<@UMEX> hi"`), nil, `group - "@UMEX hi" rule=not_addressed`},
		{"our name in words", message(`"text":"Hermes, hi"`), nil, `thread 200.000002 "Hermes, hi" addressed`},
		{"our name in words, native mentions only", message(`"text":"Hermes, hi"`), []func(*inbound.Settings){func(s *inbound.Settings) { s.Native = []string{"C1"} }}, `group - "Hermes, hi" rule=not_addressed`},
		{"a mention, native mentions only", message(`"text":"` + us + ` hi"`), []func(*inbound.Settings){func(s *inbound.Settings) { s.Native = []string{"C1"} }}, `thread 200.000002 "hi" addressed`},
		{"a channel that is answered always", message(`"text":"hi","channel":"CFREE"`), nil, `thread 200.000002 "hi" addressed`},
		{"a channel that is ignored", message(`"text":"` + us + ` hi","channel":"CIGN"`), nil, `thread 200.000002 "hi" addressed rule=chat_not_in_allowed_chats`},
		{"no mention needed", message(`"text":"hi"`), []func(*inbound.Settings){all}, `thread 200.000002 "hi" addressed`},
		{"a thread of ours", message(`"text":"hi","thread_ts":"100.000001"`), nil, `thread 100.000001 "hi" addressed`},
		{"a thread under our message", message(`"text":"hi","thread_ts":"150.000000","parent_user_id":"UME"`), nil, `thread 150.000000 "hi" addressed`},
		{"a channel that always needs a mention", message(`"text":"hi"`), []func(*inbound.Settings){func(s *inbound.Settings) { s.RequireMention, s.Always = false, []string{"C1"} }}, `group - "hi" rule=not_addressed`},
		{"to somebody else", message(`"text":"<@U0OTHER> hi"`), []func(*inbound.Settings){func(s *inbound.Settings) { s.RequireMention, s.NotToOthers = false, true }}, `group - "@U0OTHER hi" rule=not_addressed`},
		{"a thread of ours, strict", message(`"text":"hi","thread_ts":"100.000001"`), []func(*inbound.Settings){strict}, `thread 100.000001 "hi" rule=not_addressed`},
		{"named in a thread of ours, strict", message(`"text":"` + us + ` hi","thread_ts":"100.000001"`), []func(*inbound.Settings){strict}, `thread 100.000001 "hi" addressed earlier`},
		{"a thread of others", message(`"text":"hi","thread_ts":"150.000000"`), nil, `thread 150.000000 "hi" rule=not_addressed`},
		{"named in a thread of others", message(`"text":"` + us + ` hi","thread_ts":"150.000000"`), nil, `thread 150.000000 "hi" addressed earlier`},
		{"the root of a thread", message(`"text":"` + us + ` hi","thread_ts":"200.000002"`), nil, `thread 200.000002 "hi" addressed`},
		{"a group direct message", message(`"text":"` + us + ` hi","channel":"C9","channel_type":"mpim"`), nil, `group - "hi" addressed`},
		{"a group direct message, not named", message(`"text":"hi","channel":"C9","channel_type":"mpim"`), nil, `group - "hi" rule=not_addressed`},
		{"somebody joins", message(`"text":"<@U2> has joined the channel","subtype":"channel_join"`), nil, `group - "@U2 has joined the channel" rule=service_message`},
		{"broadcast of a reply", message(`"text":"hi","subtype":"thread_broadcast","thread_ts":"100.000001"`), nil, `thread 100.000001 "hi" addressed`},
		{"me", message(`"text":"waves to ` + us + `","subtype":"me_message"`), nil, `thread 200.000002 "waves to @hermes" addressed`},
		{"a command", message(`"text":"!status x","thread_ts":"100.000001"`), nil, `thread 100.000001 "/status x" addressed`},
		{"a command behind our name", message(`"text":"` + us + ` !new"`), nil, `thread 200.000002 "/new" addressed`},
		{"no command", message(`"text":"!stats","thread_ts":"100.000001"`), nil, `thread 100.000001 "!stats" addressed`},
		{"forwarded", message(`"text":"` + us + ` look","attachments":[{"is_share":true,"author_name":"Bob","text":"a &amp; b"}]`), nil, `thread 200.000002 "look\n[forwarded from Bob] a & b" addressed`},
		{"only an attachment", message(`"text":"","channel":"D1","channel_type":"im","attachments":[{"fallback":"alert"}]`), nil, `dm - "alert" addressed`},
		{"nothing in a channel", message(`"text":""`), nil, `group - "" rule=unsupported_content`},
		{"mention event", envelope(`{"type":"app_mention","channel":"C1","user":"U1","ts":"200.000002","text":"` + us + ` hi"}`), nil, `thread 200.000002 "hi" addressed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, ok, err := converter(t, c.change...).Convert(c.env, now())
			if err != nil || !ok {
				t.Fatalf("%v, %v", ok, err)
			}
			if got := short(in); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if in.IdempotencyKey != in.Address.Chat+":200.000002" || in.ID != "200.000002" || in.Kind != chat.Message || in.Address.Scope != "T1" {
				t.Errorf("%+v", in)
			}
		})
	}
}

func short(in chat.Inbound) string {
	thread := in.Address.Thread
	if thread == "" {
		thread = "-"
	}
	s := fmt.Sprintf("%s %s %q", in.Address.Kind, thread, in.Text)
	if in.Addressed {
		s += " addressed"
	}
	if in.IgnoreRule != "" {
		s += " rule=" + in.IgnoreRule
	}
	if in.HasEarlierMessages {
		s += " earlier"
	}
	return s
}

func TestAMentionAndItsMessageAreOne(t *testing.T) {
	c := converter(t)
	said, _, _ := c.Convert(message(`"text":"<@UME> hi","client_msg_id":"x","team":"T1"`), now())
	named, _, _ := c.Convert(envelope(`{"type":"app_mention","channel":"C1","user":"U1","ts":"200.000002","text":"<@UME> hi","event_ts":"200.000002"}`), now())
	if diff := cmp.Diff(said, named); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(chat.Person{ID: "U1", Name: "Ann", Handle: "ann"}, said.Sender); diff != "" {
		t.Error(diff)
	}
	if said.ChatName != "general" || said.Prompt != "of the channel" {
		t.Errorf("%+v", said)
	}
	reply, _, _ := c.Convert(message(`"text":"hi","thread_ts":"100.000001"`), now())
	if reply.Prompt != "of the thread" {
		t.Errorf("prompt %q", reply.Prompt)
	}
}

func TestBots(t *testing.T) {
	c := converter(t)
	for fields, want := range map[string]chat.Person{
		`"user":"U7","bot_id":"B7","bot_profile":{"name":"Builder"},"text":"<@UME> x"`:                      {ID: "U7", Name: "Builder", Bot: true},
		`"user":"","subtype":"bot_message","bot_id":"B7","username":"Alerts","text":"<@UME> x"`:             {ID: "B7", Name: "Alerts", Bot: true},
		`"user":"USLACKBOT","text":"<@UME> x"`:                                                              {ID: "USLACKBOT", Bot: true},
		`"user":"","subtype":"bot_message","username":"Webhook","text":"<@UME> x","channel_type":"channel"`: {ID: "C1", Name: "Webhook", Bot: true},
	} {
		in, ok, err := c.Convert(message(fields), now())
		if diff := cmp.Diff(want, in.Sender); !ok || err != nil || diff != "" || in.IgnoreRule != "" {
			t.Errorf("%s: %v %v %s %s", fields, ok, err, in.IgnoreRule, diff)
		}
	}
}

func TestEditsAndDeletions(t *testing.T) {
	c := converter(t)
	change := func(now, before string) inbound.Envelope {
		return envelope(`{"type":"message","subtype":"message_changed","hidden":true,"channel":"C1","channel_type":"channel","ts":"300.000003",
			"message":{"type":"message","user":"U1","ts":"200.000002",` + now + `},"previous_message":{"type":"message","user":"U1","ts":"200.000002",` + before + `}}`)
	}
	in, ok, _ := c.Convert(change(`"text":"<@UME> two","edited":{"user":"U1","ts":"299.000000"}`, `"text":"<@UME> one"`), now())
	if !ok || in.Kind != chat.Edit || in.IdempotencyKey != "C1:200.000002:299.000000" || in.EditedKey != "C1:200.000002" || in.Text != "two" || in.Address.Thread != "200.000002" || in.IgnoreRule != "" {
		t.Errorf("%v %+v", ok, in)
	}
	table := func(cell string) string {
		return `"text":"<@UME> one","blocks":[{"type":"table","rows":[[{"type":"raw_text","text":"` + cell + `"}]]}]`
	}
	in, ok, _ = c.Convert(change(table("2")+`,"edited":{"user":"U1","ts":"299.000000"}`, table("1")), now())
	if !ok || in.Kind != chat.Edit || in.Text != "one\n| 2 |" {
		t.Errorf("an edit of a table: %v %+v", ok, in)
	}
	for name, e := range map[string]inbound.Envelope{
		"a link is shown":  change(`"text":"<@UME> one","attachments":[{"title":"x"}]`, `"text":"<@UME> one"`),
		"edited before":    change(`"text":"<@UME> x","edited":{"user":"U1","ts":"250.0"}`, `"text":"<@UME> x","edited":{"user":"U1","ts":"250.0"}`),
		"our own thread":   change(`"user":"USLACKBOT","subtype":"tombstone","text":"gone"`, `"user":"UME","text":"x"`),
		"our own":          change(`"user":"UME","text":"two","edited":{"user":"UME","ts":"299.0"}`, `"user":"UME","text":"one"`),
		"no message in it": envelope(`{"type":"message","subtype":"message_changed","channel":"C1"}`),
	} {
		if in, ok, err := c.Convert(e, now()); ok || err != nil {
			t.Errorf("%s: %+v, %v", name, in, err)
		}
	}
	for _, e := range []inbound.Envelope{
		envelope(`{"type":"message","subtype":"message_deleted","hidden":true,"channel":"C1","channel_type":"channel","ts":"301.0","deleted_ts":"200.000002",
		"previous_message":{"type":"message","user":"U1","ts":"200.000002","text":"<@UME> one"}}`),
		change(`"subtype":"tombstone","user":"USLACKBOT","text":"This message was deleted."`, `"text":"<@UME> one"`), // it had a thread
	} {
		gone, ok, _ := c.Convert(e, now())
		if !ok || gone.IgnoreRule != "message_deleted" || gone.IdempotencyKey != "C1:200.000002:deleted" || gone.Sender.ID != "U1" {
			t.Errorf("%v %+v", ok, gone)
		}
	}
}

func TestFiles(t *testing.T) {
	c := converter(t)
	in, _, err := c.Convert(message(`"text":"","channel":"D1","channel_type":"im","subtype":"file_share","files":[
		{"id":"F1","name":"a.png","mimetype":"image/png","size":3,"url_private":"https://files.slack.com/a","url_private_download":"https://files.slack.com/d"},
		{"id":"F2","name":"v.m4a","mimetype":"audio/mp4","subtype":"slack_audio","url_private":"https://files.slack.com/v"},
		{"id":"F3","mode":"tombstone"},{"id":"F4","mode":"hidden_by_limit"},{"id":"F5","is_external":true,"url_private":"https://drive.test/x"},
		{"id":"F6","file_access":"check_file_info"},{"title":"t","mimetype":"video/mp4"}]`), now())
	want := []chat.File{
		{Kind: chat.Photo, Ref: "https://files.slack.com/d", Name: "a.png", MIME: "image/png", Size: 3},
		{Kind: chat.Voice, Ref: "https://files.slack.com/v", Name: "v.m4a", MIME: "audio/mp4"},
		{Kind: chat.Document, FetchError: "the file was deleted from Slack"},
		{Kind: chat.Document, FetchError: "Slack hides this file because the workspace is over the limit of its plan"},
		{Kind: chat.Document, FetchError: "the file is not at Slack but at another service"},
		{Kind: chat.Document, Ref: "id:F6"},
		{Kind: chat.Video, Name: "t", MIME: "video/mp4", FetchError: "Slack does not say where the file is"},
	}
	if diff := cmp.Diff(want, in.Files); err != nil || diff != "" || in.Text != "" {
		t.Errorf("%v %q %s", err, in.Text, diff)
	}
}

func TestPresses(t *testing.T) {
	c := converter(t)
	press := func(fields string) inbound.Envelope {
		return inbound.Envelope{Type: inbound.Interactive, ID: "e1", Payload: json.RawMessage(`{"type":"block_actions","trigger_id":"tr1","user":{"id":"U1","username":"ann"},
			"channel":{"id":"C1","name":"general"},"container":{"message_ts":"210.0","channel_id":"C1","thread_ts":"100.000001"},
			"actions":[{"type":"button","action_id":"hermesd_1","value":"ok:7","action_ts":"220.5"}]` + fields + `}`)}
	}
	in, ok, err := c.Convert(press(""), now())
	if err != nil || !ok || in.Kind != chat.Callback || in.Text != "ok:7" || in.IdempotencyKey != "press:tr1" || in.ID != "210.0" || in.Address.Thread != "100.000001" ||
		in.Address.Kind != chat.Thread || in.Sender.ID != "U1" || !in.Addressed || in.SentAt.Unix() != 220 {
		t.Errorf("%v %v %+v", ok, err, in)
	}
	for name, e := range map[string]inbound.Envelope{
		"a menu":          press(`,"actions":[{"type":"static_select","value":"x"}]`),
		"more than fits":  press(`,"actions":[{"type":"button","value":"` + strings.Repeat("x", 65) + `"}]`),
		"no action":       press(`,"actions":[]`),
		"a view":          press(`,"type":"view_submission"`),
		"nobody":          press(`,"user":{"id":""}`),
		"no channel":      press(`,"channel":{"id":""},"container":{"channel_id":""}`),
		"another payload": {Type: inbound.Interactive, ID: "e", Payload: json.RawMessage(`{}`)},
	} {
		if in, ok, err := c.Convert(e, now()); ok || err != nil {
			t.Errorf("%s: %+v %v", name, in, err)
		}
	}
}

func TestSlashCommands(t *testing.T) {
	c := converter(t)
	slash := func(command, text, more string) inbound.Envelope {
		raw, _ := json.Marshal(map[string]string{"command": command, "text": text, "user_id": "U1", "user_name": "ann", "channel_id": "C1", "channel_name": "general", "trigger_id": "tr2"})
		return inbound.Envelope{Type: inbound.SlashCommand, ID: "e1", Payload: json.RawMessage(strings.TrimSuffix(string(raw), "}") + more + "}")}
	}
	for _, s := range []struct{ command, text, want string }{
		{"/hermes", "", "/help"},
		{"/hermes", "  ", "/help"},
		{"/hermes", "STATUS all", "/STATUS all"},
		{"/hermes", "new\nline", "/new\nline"},
		{"/hermes", "newest thing?", "newest thing?"},
		{"/status", "all", "/status all"},
		{"/usage", "", "/usage"},
	} {
		in, ok, err := c.Convert(slash(s.command, s.text, ""), now())
		if err != nil || !ok || in.Text != s.want || in.IdempotencyKey != "slash:tr2" || in.Kind != chat.Message || !in.Addressed || in.Address.Kind != chat.Group || in.Address.Thread != "" {
			t.Errorf("%+v: %v %v %+v", s, ok, err, in)
		}
	}
	in, _, _ := c.Convert(slash("/hermes", "x", `,"channel_id":"D9","channel_name":"directmessage"`), now())
	if in.Address.Kind != chat.DM {
		t.Errorf("%+v", in.Address)
	}
	if in, _, _ := c.Convert(slash("/hermes", "x", `,"channel_id":"CIGN"`), now()); in.IgnoreRule == "" {
		t.Error("a command in a channel that is ignored is answered")
	}
	if _, ok, _ := c.Convert(slash("", "x", ""), now()); ok {
		t.Error("a command without a name is one")
	}
}

func TestWhatConcernsNobodyIsSkipped(t *testing.T) {
	c := converter(t)
	for _, e := range []inbound.Envelope{
		envelope(`{"type":"reaction_added","user":"U1","item":{"channel":"C1"}}`),
		envelope(`{"type":"app_home_opened","channel":"D1","user":"U1"}`),
		envelope(`{"type":"message","user":"U1","text":"nowhere","ts":"1.0"}`),
		message(`"text":"our own","user":"UME"`),
		message(`"text":"our own","user":"","bot_id":"BME"`),
		envelope(`{"type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"2.0","previous_message":{"user":"UME","ts":"2.0"}}`),
		envelope(`{"type":"message","channel":"C1","user":"U1","text":"never"}`),
		envelope(`{"type":"message","channel":"C1","user":"U1","text":"x","ts":"-1.0"}`),
		{Type: "something_new", ID: "e", Payload: json.RawMessage(`{}`)},
	} {
		if in, ok, err := c.Convert(e, now()); ok || err != nil {
			t.Errorf("%s: %+v %v", e.Payload, in, err)
		}
	}
}

func TestWhatCannotBeReadIsRecorded(t *testing.T) {
	c := converter(t)
	for raw, key := range map[string]string{
		`{"event":{"type":"message","channel":"C1","ts":"1.0","text":{"not":"text"}}}`:   "envelope:e9",
		`{"event_id":7,"event":{"type":"message","channel":{"id":"C1"},"ts":"1.0"}}`:     "envelope:e9",
		`{"event_id":"Ev1","event":{"type":"message","channel":{"id":"C1"},"ts":"1.0"}}`: "event:Ev1", // in whatever envelope it comes again
	} {
		e := inbound.Envelope{Type: inbound.EventsAPI, ID: "e9", Payload: json.RawMessage(raw)}
		if _, ok, err := c.Convert(e, now()); ok || err == nil {
			t.Errorf("%s can be read", raw)
		}
		in, ok := c.Quarantined(e, now())
		if !ok || in.IgnoreRule != inbound.RuleUnreadable || in.Address.Chat != "C1" || in.IdempotencyKey != key || in.Text != raw {
			t.Errorf("%s: %v %+v", raw, ok, in)
		}
	}
	if _, ok := c.Quarantined(inbound.Envelope{ID: "e", Payload: json.RawMessage(`[]`)}, now()); ok {
		t.Error("an event of nowhere is recorded")
	}
}

func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(1_000_000, 4e15).Draw(t, "at")).UTC()
		got, ok := inbound.Time(inbound.TS(at))
		if !ok || !got.Equal(at) {
			t.Fatalf("%v becomes %s becomes %v", at, inbound.TS(at), got)
		}
		if inbound.After(inbound.TS(at), inbound.TS(at)) || !inbound.After(inbound.TS(at.Add(time.Microsecond)), inbound.TS(at)) || !inbound.After(inbound.TS(at), "") {
			t.Fatalf("order at %v", at)
		}
	})
	for _, s := range []string{"", "x", "-1.0", "0.0", "1.x", "99999999999999999999.0", "F123", "1.-5"} {
		if at, ok := inbound.Time(s); ok {
			t.Errorf("%q is %v", s, at)
		}
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	if _, err := inbound.NewRules(inbound.Settings{Settings: mention.Settings{Patterns: []string{"("}}}); err == nil || !strings.Contains(err.Error(), "mention_patterns") {
		t.Errorf("%v", err)
	}
}

func FuzzConvert(f *testing.F) {
	for _, s := range []string{
		`{"event":{"type":"message","channel":"C1","channel_type":"channel","user":"U1","ts":"200.000002","text":"<@UME> hi","thread_ts":"1.0"}}`,
		`{"event":{"type":"message","subtype":"message_changed","channel":"C1","message":{"ts":"1.0","edited":{"ts":"2.0"}}}}`,
		`{"event":{"type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"1.0","previous_message":null}}`,
		`{"type":"block_actions","trigger_id":"t","user":{"id":"U"},"channel":{"id":"C1"},"actions":[{"type":"button","value":"x"}]}`,
		`{"command":"/hermes","text":"x","channel_id":"C1","user_id":"U1"}`, `null`, `[]`, `{"event":[]}`, `{"event":{"files":[{}],"channel":"D","type":"message","ts":"1"}}`,
	} {
		for _, kind := range []string{inbound.EventsAPI, inbound.Interactive, inbound.SlashCommand, "?"} {
			f.Add(kind, s)
		}
	}
	c := converter(f)
	f.Fuzz(func(t *testing.T, kind, raw string) {
		e := inbound.Envelope{Type: kind, ID: "e1", Payload: json.RawMessage(raw)}
		inbound.Of(e)
		in, ok, err := c.Convert(e, now())
		if err != nil {
			in, ok = c.Quarantined(e, now())
		}
		if !ok {
			return
		}
		if in.IdempotencyKey == "" || in.Address.Chat == "" || in.Address.Kind == "" || in.SentAt.IsZero() || in.IgnoreRule == "" && in.Sender.ID == "" {
			t.Errorf("%s becomes %+v", raw, in)
		}
		if _, err := json.Marshal(in); err != nil {
			t.Errorf("%s cannot be stored: %v", raw, err)
		}
	})
}

func TestBlocks(t *testing.T) {
	const table = `{"type":"table","rows":[[{"type":"raw_text","text":"a|b"},{"type":"raw_number","value":3}],[null,{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"U1"},{"type":"text","text":" x\ny"}]}]}]]}`
	const rows = "| a\\|b | 3 |\n| --- | --- |\n|  | @ann x y |"
	for _, c := range []struct{ name, fields, want string }{
		{"table", `"text":"see","blocks":[` + table + `]`, "see\n" + rows},
		{"table without a text", `"blocks":[` + table + `]`, rows},
		{"table in an attachment", `"text":"see","attachments":[{"fallback":"[no preview available]","blocks":[` + table + `]}]`, "see\n" + rows},
		{"table in a forwarded message", `"text":"see","attachments":[{"is_share":true,"author_name":"Bob","text":"look","message_blocks":[{"message":{"blocks":[{"type":"rich_text","elements":[]},` + table + `]}}]}]`, "see\n[forwarded from Bob] look\n" + rows},
		{"data table", `"text":"","blocks":[{"type":"data_table","caption":"Devices","rows":[[{"type":"raw_text","text":"n"}]]}]`, "Devices\n| n |"},
		{"text of rich text once", `"text":"<@U1> *bold* <https://a.test|a> :+1:","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"U1"},{"type":"text","text":" bold"}]}]}]`, "@ann *bold* a (https://a.test) :+1:"},
		{"rich text alone", `"text":"","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"a <b> "},{"type":"link","url":"https://a.test","text":"here"},{"type":"emoji","name":"wave"},{"type":"channel","channel_id":"C1"},{"type":"broadcast","range":"here"},{"type":"usergroup","usergroup_id":"S1"},{"type":"date","timestamp":1720710212}]},` +
			`{"type":"rich_text_list","style":"ordered","offset":1,"elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"two"}]}]},` +
			`{"type":"rich_text_list","style":"bullet","indent":1,"elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"in"}]}]},` +
			`{"type":"rich_text_quote","elements":[{"type":"text","text":"q\nr"}]},{"type":"rich_text_preformatted","elements":[{"type":"text","text":"x := 1"}]}]}]`,
			"a <b> here (https://a.test):wave:#general@here@S1" + "2024-07-11T15:03:32Z\n2. two\n  - in\n> q\n> r\n```\nx := 1\n```"},
		{"sections of an app", `"text":"ERROR","bot_id":"B7","blocks":[{"type":"header","text":{"type":"plain_text","text":"Error"}},{"type":"section","text":{"type":"mrkdwn","text":"Disk &lt;full&gt; of <@U1>"},"fields":[{"type":"mrkdwn","text":"a"},{"type":"plain_text","text":"b"}]},{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"OK"}}]}]`, "ERROR\nDisk <full> of @ann\na\nb"},
		{"attachment of an app", `"text":"up","bot_id":"B7","attachments":[{"fallback":"f","text":"98%","fields":[{"title":"Unit","value":"3"}]},{"text":"more"}]`, "up\n98%\nUnit\n3\nmore"},
		{"preview of a link", `"text":"<https://a.test>","attachments":[{"from_url":"https://a.test","text":"A page"}]`, "https://a.test"},
		{"of another form", `"text":"x","blocks":{"a":1},"attachments":[{"blocks":7},{"blocks":[7,{"type":"table","rows":"invalid"},{"type":"table","rows":[["x",{"type":"raw_text"}]]}]}]`, "x\n|  |  |"},
		{"newer than this", `"text":"","blocks":[{"type":"poem","title":"Ode","elements":[{"type":"stanza","text":"roses"}]}]`, "Ode\nroses"},
		{"deep", `"text":"","blocks":[` + strings.Repeat(`{"type":"x","elements":[`, 60) + strings.Repeat(`]}`, 60) + `,{"type":"context","elements":[{"type":"plain_text","text":"end"}]}]`, "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, ok, err := converter(t).Convert(message(`"channel":"D1","channel_type":"im",`+c.fields), now())
			if !ok || err != nil || in.Text != c.want {
				t.Errorf("got  %q\nwant %q; %v %v", in.Text, c.want, ok, err)
			}
		})
	}
	in, _, _ := converter(t).Convert(message(`"text":"","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"UME"},{"type":"text","text":" hi"}]}]}]`), now())
	if !in.Addressed || in.Text != "@hermes hi" {
		t.Errorf("a mention that stands only in blocks: %+v", in)
	}
}
