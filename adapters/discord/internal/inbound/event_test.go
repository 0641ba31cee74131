package inbound_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/internal/mention"
	"hermesd/gateway/chat"
)

const me = "900"

var (
	now    = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	direct = inbound.ChannelInfo{ID: "10", Type: inbound.Direct}
	place  = inbound.ChannelInfo{ID: "20", Guild: "1", Name: "general", GuildName: "G", Role: "77"}
	thread = inbound.ChannelInfo{ID: "30", Guild: "1", Parent: "20", Name: "topic", ParentName: "general", Type: inbound.PublicThread}
)

func converter(t testing.TB, s mention.Settings) inbound.Converter {
	t.Helper()
	r, err := mention.NewRules(s)
	if err != nil {
		t.Fatal(err)
	}
	return inbound.Converter{Account: "work", Me: inbound.Identity{ID: me, Name: "hermes"}, Rules: inbound.Rules{Rules: r}}
}

// message writes a message of the person 5 with more fields.
func message(channel, text string, more ...string) json.RawMessage {
	fields := append([]string{
		`"id":"1000"`, fmt.Sprintf(`"channel_id":%q`, channel), `"type":0`, fmt.Sprintf(`"content":%q`, text),
		`"author":{"id":"5","username":"ann","global_name":"Ann"}`, `"timestamp":"2026-11-22T11:59:00.123000+00:00"`,
	}, more...)
	return json.RawMessage("{" + strings.Join(fields, ",") + "}") // of two equal names the last counts
}

const names = `"mentions":[{"id":"900","username":"hermes","bot":true}]`

func TestADirectMessage(t *testing.T) {
	in, v, err := converter(t, mention.Settings{RequireMention: true}).Message(message("10", "hello"), direct, false, false)
	if err != nil || v != inbound.Converted {
		t.Fatal(v, err)
	}
	want := chat.Inbound{
		IdempotencyKey: "10:1000", ID: "1000", Kind: chat.Message,
		Address: chat.Address{Platform: chat.Discord, Account: "work", Kind: chat.DM, Chat: "10"},
		Sender:  chat.Person{ID: "5", Name: "Ann", Handle: "ann"},
		SentAt:  time.Date(2026, 11, 22, 11, 59, 0, 123000000, time.UTC), Text: "hello", Addressed: true,
	}
	if d := cmp.Diff(want, in); d != "" {
		t.Error(d)
	}
}

func TestWhomAMessageIsFor(t *testing.T) {
	const (
		other   = `"mentions":[{"id":"6","username":"bob"}]`
		bot     = `"mentions":[{"id":"7","username":"b","bot":true}]`
		reply   = `"type":19,"message_reference":{"message_id":"999"},"referenced_message":{"id":"999","content":"q","author":{"id":"900","username":"hermes"}}`
		toOther = `"type":19,"message_reference":{"message_id":"999"},"referenced_message":{"id":"999","content":"q","author":{"id":"6","username":"bob"}}`
	)
	base := mention.Settings{RequireMention: true, AutoThread: true}
	free := mention.Settings{RequireMention: true, AutoThread: true, Free: []string{"20"}}
	for _, c := range []struct {
		name   string
		s      mention.Settings
		p      inbound.ChannelInfo
		joined bool
		raw    json.RawMessage
		rule   string // "": it is for us
		thread string
	}{
		{name: "nobody", s: base, p: place, raw: message("20", "x"), rule: "not_addressed"},
		{name: "us", s: base, p: place, raw: message("20", "<@900> x", names), thread: "1000"},
		{name: "us, no threads", s: mention.Settings{RequireMention: true}, p: place, raw: message("20", "<@900> x", names)},
		{name: "our role", s: base, p: place, raw: message("20", "<@&77> x", `"mention_roles":["77"]`), thread: "1000"},
		{name: "another role", s: base, p: place, raw: message("20", "<@&78> x", `"mention_roles":["78"]`), rule: "not_addressed"},
		{name: "everyone", s: base, p: place, raw: message("20", "@everyone x", `"mention_everyone":true`), rule: "not_addressed"},
		{name: "a reply to us", s: base, p: place, raw: message("20", "x", reply)},
		{name: "a reply to somebody", s: base, p: place, raw: message("20", "x", toOther), rule: "not_addressed"},
		{name: "a reply that names us", s: base, p: place, raw: message("20", "<@900> x", names, toOther)},
		{name: "somebody else", s: base, p: place, raw: message("20", "<@6> x", other), rule: "addressed_to_somebody_else"},
		{name: "another bot", s: base, p: place, raw: message("20", "<@7> x", bot), rule: "addressed_to_somebody_else"},
		{name: "no mention is required", s: mention.Settings{AutoThread: true}, p: place, raw: message("20", "x")},
		{name: "no mention is required, but another is named", s: mention.Settings{}, p: place, raw: message("20", "<@6> x", other), rule: "addressed_to_somebody_else"},
		{name: "a free channel", s: free, p: place, raw: message("20", "x")},
		{name: "a free channel, somebody else", s: free, p: place, raw: message("20", "<@6> x", other)},
		{name: "a thread of a free channel", s: free, p: thread, raw: message("30", "x")},
		{name: "all are free", s: mention.Settings{RequireMention: true, Free: []string{"*"}}, p: place, raw: message("20", "x")},
		{name: "a thread", s: base, p: thread, raw: message("30", "x"), rule: "not_addressed"},
		{name: "a thread in which we are", s: base, p: thread, joined: true, raw: message("30", "x")},
		{name: "a thread in which we are, strict", s: mention.Settings{RequireMention: true, Strict: true}, p: thread, joined: true, raw: message("30", "x"), rule: "not_addressed"},
		{name: "a thread in which we are, to somebody else", s: base, p: thread, joined: true, raw: message("30", "<@6> x", other), rule: "addressed_to_somebody_else"},
		{name: "a thread that we opened", s: base, p: inbound.ChannelInfo{ID: "30", Guild: "1", Parent: "20", Type: 11, Ours: true}, raw: message("30", "x")},
		{name: "a thread, named", s: base, p: thread, raw: message("30", "<@900> x", names)},
		{name: "a pattern", s: mention.Settings{RequireMention: true, Patterns: []string{`\bhermes\b`}}, p: place, raw: message("20", "Hermes, x")},
		{name: "a pattern, native mentions only", s: mention.Settings{RequireMention: true, Patterns: []string{`\bhermes\b`}, Native: []string{"20"}}, p: thread, raw: message("30", "Hermes, x"), rule: "not_addressed"},
		{name: "a mention, native mentions only", s: mention.Settings{RequireMention: true, Native: []string{"20"}}, p: thread, raw: message("30", "<@900> x", names)},
		{name: "a voice channel opens no thread", s: base, p: inbound.ChannelInfo{ID: "20", Guild: "1", Type: 2}, raw: message("20", "<@900> x", names)},
		{name: "not allowed", s: mention.Settings{Allowed: []string{"21"}}, p: place, raw: message("20", "<@900> x", names), rule: "chat_not_in_allowed_chats"},
		{name: "allowed", s: mention.Settings{Allowed: []string{"20"}}, p: place, raw: message("20", "x")},
		{name: "a thread of what is allowed", s: mention.Settings{Allowed: []string{"20"}}, p: thread, raw: message("30", "x")},
		{name: "ignored", s: mention.Settings{Ignored: []string{"20"}, Free: []string{"20"}}, p: place, raw: message("20", "<@900> x", names), rule: "chat_in_ignored_channels"},
		{name: "a thread of what is ignored", s: mention.Settings{Ignored: []string{"20"}}, p: thread, raw: message("30", "x"), rule: "chat_in_ignored_channels"},
		{name: "direct chats are always listened to", s: mention.Settings{Allowed: []string{"20"}, Ignored: []string{"10"}}, p: direct, raw: message("10", "x")},
		{name: "our own", s: base, p: direct, raw: message("10", "x", `"author":{"id":"900","username":"hermes","bot":true}`), rule: "own_message"},
		{name: "a join", s: mention.Settings{}, p: place, raw: message("20", "", `"type":7`), rule: "service_message"},
		{name: "the start of a thread", s: mention.Settings{}, p: thread, raw: message("30", "", `"type":21`), rule: "service_message"},
		{name: "nothing", s: mention.Settings{}, p: direct, raw: message("10", " "), rule: "no_content"},
	} {
		in, v, err := converter(t, c.s).Message(c.raw, c.p, false, c.joined)
		if err != nil || v != inbound.Converted && c.rule != "own_message" || v == inbound.OwnMessage && c.rule != "own_message" {
			t.Errorf("%s: %v, %v", c.name, v, err)
			continue
		}
		if in.IgnoreRule != c.rule || c.rule == "" && !in.Addressed {
			t.Errorf("%s: rule %q addressed %v, want rule %q", c.name, in.IgnoreRule, in.Addressed, c.rule)
		}
		want := chat.Address{Platform: chat.Discord, Account: "work", Kind: chat.Group, Scope: "1", Chat: "20"}
		switch {
		case c.p.Direct():
			want = chat.Address{Platform: chat.Discord, Account: "work", Kind: chat.DM, Chat: "10"}
		case c.p.Thread():
			want.Kind, want.Thread = chat.Thread, "30"
		case c.thread != "":
			want.Kind, want.Thread = chat.Thread, c.thread
		}
		if c.rule == "" && in.Address != want {
			t.Errorf("%s: from %+v, want %+v", c.name, in.Address, want)
		}
	}
}

func TestWhatAMessageSays(t *testing.T) {
	for _, c := range []struct {
		name, content string
		more          []string
		want          string
	}{
		{"our name first", "<@900> do it", []string{names}, "do it"},
		{"our name first, with a comma", " <@!900>, do it", []string{names}, "do it"},
		{"our role first", "<@&77> do it", nil, "do it"},
		{"our name only", "<@900>", []string{names}, "@hermes"},
		{"our name inside", "ask <@900> now", []string{names}, "ask @hermes now"},
		{"other names", "<@900> tell <@6> and <@8>", []string{`"mentions":[{"id":"6","username":"bob","global_name":"Bob B"},null]`}, "tell @Bob B and <@8>"},
		{"channels and roles stay", "see <#20> <@&5>", nil, "see <#20> <@&5>"},
		{"emojis", "ok <:yes:12> <a:wave:13>", nil, "ok :yes: :wave:"},
		{"an embed of a program", "", []string{`"embeds":[{"type":"rich","title":"T","description":"D","fields":[{"name":"a","value":"b"},null],"footer":{"text":"F"},"url":"https://x.test"}]`},
			"[embed] T\nD\na: b\nF\nhttps://x.test"},
		{"a preview of a link", "https://x.test", []string{`"embeds":[{"type":"link","title":"T"}]`}, "https://x.test"},
		{"a sticker", "", []string{`"sticker_items":[{"id":"1","name":"Wave"}]`}, "[sticker: Wave]"},
		{"a poll", "", []string{`"poll":{"question":{"text":"Which?"},"answers":[{"poll_media":{"text":"A"}},{"poll_media":{"text":"B"}},null]}`}, "[poll] Which?\n- A\n- B"},
		{"components", "", []string{`"flags":32768,"components":[{"type":17,"components":[{"type":10,"content":"said <@6>"},{"type":9,"components":[{"type":10,"content":"two"}],"accessory":{"type":11,"description":"a cat"}}]},{"type":12,"items":[{"description":"a dog"}]},{"type":1,"components":[{"type":2,"label":"OK"}]}]`, `"mentions":[{"id":"6","username":"bob"}]`}, "said @bob\ntwo\na cat\na dog"},
		{"forwarded components", "", []string{`"message_reference":{"type":1,"message_id":"5"},"message_snapshots":[{"message":{"content":"","components":[{"type":10,"content":"one"}]}}]`}, "[forwarded]\none"},
		{"a forwarded message", "", []string{`"message_reference":{"type":1,"message_id":"5"},"message_snapshots":[{"message":{"content":"said <@6>","mentions":[{"id":"6","username":"bob"}]}},null]`}, "[forwarded]\nsaid @bob"},
	} {
		in, _, err := converter(t, mention.Settings{}).Message(message("20", c.content, c.more...), place, false, false)
		if err != nil || in.Text != c.want {
			t.Errorf("%s: %q (%v), want %q", c.name, in.Text, err, c.want)
		}
	}
}

func TestWhoAndWhatIsWithAMessage(t *testing.T) {
	c := converter(t, mention.Settings{Prompts: map[string]string{"20": "be kind", "31": "be brief"}})
	in, _, err := c.Message(message("20", "x",
		`"member":{"nick":"Annie","roles":["70","71"]}`,
		`"attachments":[{"id":"1","filename":"a.png","content_type":"image/png","size":3,"url":"https://cdn.discordapp.com/a.png?ex=1"},null,{"id":"2","filename":"b"}]`,
		`"type":19,"message_reference":{"message_id":"999"},"referenced_message":{"id":"999","content":"<@900> before","author":{"id":"900","username":"hermes"}}`,
	), place, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(chat.Person{ID: "5", Name: "Annie", Handle: "ann", Roles: []string{"70", "71"}}, in.Sender); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]chat.File{{Kind: chat.Photo, Ref: "20 1000 1 https://cdn.discordapp.com/a.png?ex=1", Name: "a.png", MIME: "image/png", Size: 3}}, in.Files); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&chat.Quote{ID: "999", Text: "before", Author: "hermes", FromBot: true}, in.ReplyTo); d != "" {
		t.Error(d)
	}
	if in.Prompt != "be kind" || in.ChatName != "G / general" {
		t.Errorf("prompt %q, chat %q", in.Prompt, in.ChatName)
	}
	if in, _, _ = c.Message(message("30", "x"), thread, false, false); in.Prompt != "be kind" || in.Topic != "topic" {
		t.Errorf("in a thread: prompt %q, topic %q", in.Prompt, in.Topic)
	}
	if in, _, _ = c.Message(message("20", "x", `"type":19,"message_reference":{"message_id":"999"},"referenced_message":null`), place, false, false); in.ReplyTo == nil || in.ReplyTo.ID != "999" {
		t.Errorf("a reply to what is gone: %+v", in.ReplyTo)
	}
	if in, _, _ = c.Message(message("20", "x", `"webhook_id":"4"`), place, false, false); !in.Sender.Bot {
		t.Error("a webhook counts as a person")
	}
	if in, _, _ = c.Message(message("20", "x", `"author":{"id":"6","username":"b","bot":true}`), place, false, false); !in.Sender.Bot || in.Sender.ID != "6" {
		t.Errorf("a bot is %+v", in.Sender)
	}
	if in, _, _ = c.Message(message("20", "", `"flags":8192,"attachments":[{"id":"1","content_type":"audio/ogg","url":"https://x"}]`), place, false, false); len(in.Files) != 1 || in.Files[0].Kind != chat.Voice {
		t.Errorf("a voice message: %+v", in.Files)
	}
}

func TestEdits(t *testing.T) {
	c := converter(t, mention.Settings{})
	if _, v, err := c.Message(message("10", "x", `"edited_timestamp":null`), direct, true, false); v != inbound.Skipped || err != nil {
		t.Errorf("a preview counts as an edit: %v, %v", v, err)
	}
	in, _, err := c.Message(message("10", "y", `"edited_timestamp":"2026-11-22T12:00:00Z"`), direct, true, false)
	if err != nil || in.Kind != chat.Edit || in.EditedKey != "10:1000" || in.IdempotencyKey != "10:1000:2026-11-22T12:00:00Z" || in.Text != "y" {
		t.Errorf("%+v, %v", in, err)
	}
	// The message that opened a thread keeps its place although it names nobody any more.
	c = converter(t, mention.Settings{AutoThread: true})
	in, _, _ = c.Message(message("20", "y", `"edited_timestamp":"2026-11-22T12:00:00Z","flags":32`), place, true, false)
	if in.Address.Thread != "1000" {
		t.Errorf("the edit moved to %+v", in.Address)
	}
}

func TestInteractions(t *testing.T) {
	c := converter(t, mention.Settings{Ignored: []string{"21"}})
	head := `"id":"2000","application_id":"8","token":"tok","channel_id":"20","guild_id":"1","member":{"nick":"Annie","roles":["70"],"user":{"id":"5","username":"ann"}}`
	for _, k := range []struct {
		name, raw string
		p         inbound.ChannelInfo
		want      chat.Inbound
		command   bool
	}{
		{"a button", `{` + head + `,"type":3,"data":{"custom_id":"ok:1"},"message":{"id":"1500"}}`, place,
			chat.Inbound{ID: "1500", Kind: chat.Callback, Text: "ok:1", Addressed: true}, false},
		{"a command", `{` + head + `,"type":2,"data":{"name":"title","options":[{"name":"text","value":"my talk"}]}}`, place,
			chat.Inbound{ID: "2000", Kind: chat.Message, Text: "/title my talk", Addressed: true}, true},
		{"a command with numbers", `{` + head + `,"type":2,"data":{"name":"undo","options":[{"name":"n","value":2},null]}}`, place,
			chat.Inbound{ID: "2000", Kind: chat.Message, Text: "/undo 2", Addressed: true}, true},
		{"a command of commands", `{` + head + `,"type":2,"data":{"name":"cron","options":[{"name":"list","options":[{"name":"a","value":"b"}]}]}}`, place,
			chat.Inbound{ID: "2000", Kind: chat.Message, Text: "/cron list b", Addressed: true}, true},
		{"in an ignored channel", `{` + head + `,"type":2,"data":{"name":"x"}}`, inbound.ChannelInfo{ID: "21", Guild: "1"},
			chat.Inbound{ID: "2000", Kind: chat.Message, Text: "/x", Addressed: true, IgnoreRule: "chat_in_ignored_channels"}, true},
	} {
		in, answer, v, err := c.Interaction(json.RawMessage(k.raw), k.p, now)
		if err != nil || v != inbound.Converted {
			t.Errorf("%s: %v, %v", k.name, v, err)
			continue
		}
		k.want.IdempotencyKey, k.want.SentAt, k.want.ChatName = "2000", inbound.Time("2000"), in.ChatName
		k.want.Sender = chat.Person{ID: "5", Name: "Annie", Handle: "ann", Roles: []string{"70"}}
		k.want.Address = chat.Address{Platform: chat.Discord, Account: "work", Kind: chat.Group, Scope: "1", Chat: k.p.ID}
		if d := cmp.Diff(k.want, in); d != "" {
			t.Errorf("%s: %s", k.name, d)
		}
		if want := (inbound.Interaction{ID: "2000", Token: "tok", App: "8", Command: k.command}); answer != want {
			t.Errorf("%s: %+v", k.name, answer)
		}
	}
	for _, raw := range []string{`{"id":"1","type":1}`, `{"id":"1","type":4,"channel_id":"2"}`, `{"id":"1","type":5}`} {
		if _, _, v, err := c.Interaction(json.RawMessage(raw), place, now); v != inbound.Skipped || err != nil {
			t.Errorf("%s: %v, %v", raw, v, err)
		}
	}
}

// What cannot be read is an error, and what can be read of it is recorded.
func TestMalformedEvents(t *testing.T) {
	c := converter(t, mention.Settings{})
	for _, raw := range []string{
		`{}`, `null`, `[]`, `7`, `{"id":"1"}`, `{"id":"1","channel_id":"2"}`, `{"id":"1","channel_id":"2","author":null}`,
		`{"id":"1","channel_id":"2","author":{}}`, `{"id":"x","channel_id":"2","author":{"id":"5"}}`, `{"id":1,"channel_id":2}`, `{`,
	} {
		if _, v, err := c.Message(json.RawMessage(raw), place, false, false); err == nil {
			t.Errorf("%s: taken as %v", raw, v)
		}
	}
	in, ok := c.Quarantined(json.RawMessage(`{"id":"1","channel_id":"20","author":null}`), place, now)
	if !ok || in.IgnoreRule != inbound.RuleUnreadable || in.Address.Chat != "20" || in.IdempotencyKey == "20:1" {
		t.Errorf("%+v, %v", in, ok)
	}
	if _, ok := c.Quarantined(json.RawMessage(`{"id":"1"}`), place, now); ok {
		t.Error("an event of nowhere was recorded")
	}
	// A field of the wrong type does not cost the words.
	in, _, err := c.Message(message("20", "words", `"embeds":{"a":1},"flags":"x","mentions":[1,{"id":"6"}],"poll":5`), place, false, false)
	if err != nil || in.Text != "words" {
		t.Errorf("%q, %v", in.Text, err)
	}
}

func TestIDsAndTimes(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	if got := inbound.Time(inbound.IDAt(at)); !got.Equal(at) {
		t.Errorf("%v, want %v", got, at)
	}
	if !inbound.Before(inbound.IDAt(at), inbound.IDAt(at.Add(time.Millisecond))) || inbound.Before("10", "9") {
		t.Error("the order of ids is not that of time")
	}
	if id := inbound.IDAt(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); id != "0" {
		t.Errorf("before Discord: %s", id)
	}
	for _, id := range []string{"", "0", "-1", "x", "99999999999999999999999"} {
		if _, ok := inbound.Snowflake(id); ok {
			t.Errorf("%q is taken for an id", id)
		}
	}
}

func TestReferences(t *testing.T) {
	r := inbound.Ref{Channel: "1", Message: "2", ID: "3", URL: "https://x.test/a b?c=d"}
	if got, ok := inbound.ParseRef(r.String()); !ok || got != r {
		t.Errorf("%+v", got)
	}
	if _, ok := inbound.ParseRef("1 2"); ok {
		t.Error("half a reference is taken")
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(message("20", "<@900> hi", names)), true)
	f.Add([]byte(`{"id":"1","channel_id":"2","author":{"id":"5"},"timestamp":"9999-12-31T23:59:59-14:00","edited_timestamp":"x","message_snapshots":[null]}`), false)
	c := converter(f, mention.Settings{RequireMention: true, AutoThread: true, Patterns: []string{"a+"}})
	f.Fuzz(func(t *testing.T, raw []byte, edit bool) {
		for _, p := range []inbound.ChannelInfo{direct, place, thread, {}} {
			in, v, err := c.Message(raw, p, edit, false)
			if q, ok := c.Quarantined(raw, p, now); ok {
				storable(t, q)
			}
			if err == nil && v == inbound.Converted {
				storable(t, in)
			}
		}
	})
}

func FuzzInteraction(f *testing.F) {
	f.Add([]byte(`{"id":"2000","type":2,"channel_id":"20","user":{"id":"5"},"data":{"name":"a","options":[{"name":"b","options":[null]}]}}`))
	c := converter(f, mention.Settings{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		inbound.InteractionPlace(raw)
		if in, _, v, err := c.Interaction(raw, place, now); err == nil && v == inbound.Converted {
			storable(t, in)
		}
	})
}

// storable reports what a store could not keep.
func storable(t *testing.T, in chat.Inbound) {
	t.Helper()
	raw, err := json.Marshal(in)
	var again chat.Inbound
	if err == nil {
		err = json.Unmarshal(raw, &again)
	}
	if err != nil || !reflect.DeepEqual(in, again) || in.IdempotencyKey == "" || in.SentAt.IsZero() {
		t.Errorf("%+v\nbecomes %+v (%v)", in, again, err)
	}
}

const listing = `{"id":"1","name":"G","roles":[{"id":"77","tags":{"bot_id":"900"}},{"id":"78"},null],
	"channels":[{"id":"20","name":"general","type":0,"last_message_id":"500"},null,{"id":"21","name":"forum","type":15}],
	"threads":[{"id":"30","name":"topic","type":11,"parent_id":"20","owner_id":"900"}]}`

func apply(d *inbound.Directory, kind, raw string) string { return d.Apply(kind, json.RawMessage(raw)) }

func TestTheDirectory(t *testing.T) {
	d := inbound.NewDirectory()
	d.Me("900")
	if got := apply(d, "GUILD_CREATE", listing); got != "1" {
		t.Fatalf("listed %q", got)
	}
	p, ok := d.Channel("20")
	if want := (inbound.ChannelInfo{ID: "20", Guild: "1", Name: "general", GuildName: "G", Last: "500", Role: "77"}); !ok || p != want {
		t.Errorf("%+v", p)
	}
	p, ok = d.Channel("30")
	if want := (inbound.ChannelInfo{ID: "30", Guild: "1", Parent: "20", Name: "topic", ParentName: "general", GuildName: "G", Type: 11, Ours: true, Role: "77"}); !ok || p != want {
		t.Errorf("%+v", p)
	}
	apply(d, "THREAD_CREATE", `{"id":"31","guild_id":"1","type":11,"parent_id":"20","name":"new"}`)
	apply(d, "CHANNEL_UPDATE", `{"id":"20","guild_id":"1","type":0,"name":"lobby"}`)
	if p, _ = d.Channel("31"); p.Parent != "20" || p.ParentName != "lobby" {
		t.Errorf("%+v", p)
	}
	apply(d, "THREAD_LIST_SYNC", `{"guild_id":"1","threads":[{"id":"32","type":12,"parent_id":"20"}]}`)
	if p, ok = d.Channel("32"); !ok || p.Guild != "1" || !p.Thread() {
		t.Errorf("%+v", p)
	}
	apply(d, "THREAD_DELETE", `{"id":"31"}`)
	if _, ok = d.Channel("31"); ok {
		t.Error("a deleted thread is still there")
	}
	apply(d, "GUILD_DELETE", `{"id":"1","unavailable":true}`)
	if _, ok = d.Channel("20"); !ok {
		t.Error("an outage takes the channels away")
	}
	apply(d, "GUILD_DELETE", `{"id":"1"}`)
	if _, ok = d.Channel("20"); ok {
		t.Error("a guild that was left is still there")
	}
}

func TestTheDirectoryLearnsItsRole(t *testing.T) {
	d := inbound.NewDirectory()
	d.Me("900")
	apply(d, "GUILD_CREATE", `{"id":"1","channels":[{"id":"20","type":0}]}`)
	apply(d, "GUILD_ROLE_CREATE", `{"guild_id":"1","role":{"id":"79","tags":{"bot_id":"900"}}}`)
	apply(d, "GUILD_ROLE_CREATE", `{"guild_id":"1","role":{"id":"80","tags":{"bot_id":"901"}}}`)
	if p, _ := d.Channel("20"); p.Role != "79" {
		t.Errorf("%+v", p)
	}
}

func FuzzDirectory(f *testing.F) {
	f.Add("GUILD_CREATE", listing)
	f.Add("GUILD_ROLE_UPDATE", `{"guild_id":"1","role":null}`)
	f.Add("THREAD_LIST_SYNC", `null`)
	f.Fuzz(func(t *testing.T, kind, raw string) {
		d := inbound.NewDirectory()
		d.Me("900")
		apply(d, kind, raw)
		apply(d, kind, raw)
		d.Learn(json.RawMessage(raw))
		d.Channel("20")
	})
}
