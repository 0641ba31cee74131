package inbound_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/internal/mention"
	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
)

var me = inbound.Identity{ID: 99, Username: "HermesBot"}

// A result is what conversion makes of an update.
type result struct {
	In chat.Inbound
	V  inbound.ConvertResult
}

func try(cfg mention.Settings, who inbound.Identity, raw string) (result, error) {
	r, err := mention.NewRules(cfg)
	if err != nil {
		return result{}, err
	}
	in, v, err := inbound.Converter{Me: who, Rules: r}.Convert(json.RawMessage(raw), time.Unix(42, 0))
	return result{in, v}, err
}

func convert(t *testing.T, cfg mention.Settings, who inbound.Identity, raw string) result {
	t.Helper()
	r, err := try(cfg, who, raw)
	if err != nil {
		t.Fatalf("convert %s: %v", raw, err)
	}
	return r
}

// private returns an update of kind with a message of a private chat and fields.
func private(kind, fields string) string {
	return `{"update_id":1,"` + kind + `":{"message_id":7,"date":1700000000,"chat":{"id":5,"type":"private"},` +
		`"from":{"id":5,"first_name":"Ann","last_name":"Lee","username":"ann"},` + fields + `}}`
}

func group(fields string) string {
	return `{"update_id":1,"message":{"message_id":7,"date":1700000000,"chat":{"id":-100,"type":"supergroup","title":"Team"},` +
		`"from":{"id":5,"first_name":"Ann"},` + fields + `}}`
}

func TestADirectMessageIsTakenWhole(t *testing.T) {
	got := convert(t, mention.Settings{Prompts: map[string]string{"5": "be brief"}}, inbound.Identity{}, private("message", `"text":"hi"`)).In
	want := chat.Inbound{
		IdempotencyKey: "5:7", ID: "7", Kind: chat.Message,
		Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "5"},
		Sender:  chat.Person{ID: "5", Name: "Ann Lee", Handle: "ann"},
		SentAt:  time.Unix(1700000000, 0).UTC(), Text: "hi", Addressed: true, Prompt: "be brief",
		Part: &chat.Part{Group: "text"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestWhatIsNotTextIsPutIntoWords(t *testing.T) {
	for _, c := range []struct{ name, fields, text string }{
		{"location", `"location":{"latitude":52.5,"longitude":13.25}`, "[location]\n52.500000, 13.250000\nhttps://maps.google.com/?q=52.500000,13.250000"},
		{"venue", `"venue":{"title":"Bar]\n[x","address":"Street 1","location":{"latitude":1,"longitude":2}}`, "[location: Bar x, Street 1]\n1.000000, 2.000000\nhttps://maps.google.com/?q=1.000000,2.000000"},
		{"contact", `"contact":{"phone_number":"+1","first_name":"Bob"}`, "[contact: Bob, +1]"},
		{"poll", `"poll":{"question":"Q?","options":[{"text":"a"},{"text":"b"}]}`, "[poll: Q?]\n- a\n- b"},
		{"dice", `"dice":{"emoji":"🎲","value":4}`, "[dice 🎲: 4]"},
		{"sticker", `"sticker":{"file_id":"s","emoji":"😀"}`, "[sticker 😀]"},
		{"story", `"story":{"id":1,"chat":{"id":1,"type":"private"}}`, "[story]"},
		{"forward", `"text":"x","forward_origin":{"type":"user","sender_user":{"id":1,"first_name":"B[o]b"}}`, "[forwarded from Bob]\nx"},
		{"forwarded command is none", `"text":"/new","forward_origin":{"type":"hidden_user","sender_user_name":"Zed"}`, "[forwarded from Zed]\n/new"},
		{"caption", `"caption":"look","photo":[{"file_id":"p"}]`, "look"},
		{"unknown", `"hologram":{"x":1}`, "[a kind of message that this bot cannot read]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := convert(t, mention.Settings{}, me, private("message", c.fields)).In
			if got.Text != c.text || got.IgnoreRule != "" {
				t.Errorf("text %q rule %q, want %q and no rule", got.Text, got.IgnoreRule, c.text)
			}
		})
	}
}

func TestFilesAreListed(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         []chat.File
	}{
		{"the largest photo", `"photo":[{"file_id":"a","width":10,"height":10},{"file_id":"c","width":90,"height":90,"file_size":5},{"file_id":"b","width":50,"height":50}]`,
			[]chat.File{{Kind: chat.Photo, Ref: "c", MIME: "image/jpeg", Size: 5}}},
		{"voice", `"voice":{"file_id":"v","mime_type":"audio/ogg","file_size":3}`, []chat.File{{Kind: chat.Voice, Ref: "v", MIME: "audio/ogg", Size: 3}}},
		{"audio", `"audio":{"file_id":"v","file_name":"a.mp3"}`, []chat.File{{Kind: chat.Audio, Ref: "v", Name: "a.mp3"}}},
		{"video", `"video":{"file_id":"v"}`, []chat.File{{Kind: chat.Video, Ref: "v"}}},
		{"video note", `"video_note":{"file_id":"v"}`, []chat.File{{Kind: chat.Video, Ref: "v", MIME: "video/mp4"}}},
		{"animation, once", `"animation":{"file_id":"v"},"document":{"file_id":"v"}`, []chat.File{{Kind: chat.Video, Ref: "v"}}},
		{"hostile name kept as told", `"document":{"file_id":"v","file_name":"../../etc/passwd"}`, []chat.File{{Kind: chat.Document, Ref: "v", Name: "../../etc/passwd"}}},
		{"sticker", `"sticker":{"file_id":"v","is_video":true}`, []chat.File{{Kind: chat.Sticker, Ref: "v", MIME: "video/webm"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, convert(t, mention.Settings{}, me, private("message", c.fields)).In.Files); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPiecesOfOneThing(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for _, c := range []struct {
		name, fields string
		want         *chat.Part
	}{
		{"album", `"media_group_id":"g1","photo":[{"file_id":"a"}]`, &chat.Part{Group: "g1", Wait: 500 * time.Millisecond}},
		{"long text", `"text":"` + long + `"`, &chat.Part{Group: "text", Wait: time.Second}},
		{"just under", `"text":"` + long[1:] + `"`, &chat.Part{Group: "text"}},
		{"counted in UTF-16", `"text":"` + strings.Repeat("😀", 2000) + `"`, &chat.Part{Group: "text", Wait: time.Second}},
		{"a command stands alone", `"text":"/stop"`, nil},
		{"a single photo", `"photo":[{"file_id":"a"}]`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, convert(t, mention.Settings{}, me, private("message", c.fields)).In.Part); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReplies(t *testing.T) {
	reply := func(more string) string {
		return `"text":"and?","reply_to_message":{"message_id":3,"date":1,"chat":{"id":5,"type":"private"},"from":{"id":99,"is_bot":true,"first_name":"Hermes"},` + more + `}`
	}
	for _, c := range []struct {
		name, fields string
		want         *chat.Quote
	}{
		{"to one of ours", reply(`"text":"the answer"`), &chat.Quote{ID: "3", Text: "the answer", Author: "Hermes", FromBot: true}},
		{"marked words", reply(`"text":"the answer"`) + `,"quote":{"text":"answer","is_manual":true}`, &chat.Quote{ID: "3", Text: "answer", Author: "Hermes", FromBot: true}},
		{"to a photo", reply(`"photo":[{"file_id":"x"}]`), &chat.Quote{ID: "3", Text: "[photo]", Author: "Hermes", FromBot: true}},
		{"to another chat", `"text":"x","external_reply":{"origin":{"type":"hidden_user","sender_user_name":"Zed"},"message_id":4},"quote":{"text":"his words"}`, &chat.Quote{ID: "4", Text: "his words", Author: "Zed"}},
		{"the root of a topic is no reply", `"text":"x","is_topic_message":true,"message_thread_id":3,` + reply(`"forum_topic_created":{"name":"News"}`)[len(`"text":"and?",`):], nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, convert(t, mention.Settings{}, me, private("message", c.fields)).In.ReplyTo); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEditsAmendTheirMessage(t *testing.T) {
	got := convert(t, mention.Settings{}, me, private("edited_message", `"edit_date":1700000050,"text":"new"`)).In
	if got.Kind != chat.Edit || got.IdempotencyKey != "5:7:1700000050" || got.EditedKey != "5:7" || got.Part != nil || got.SentAt.Unix() != 1700000050 {
		t.Errorf("edit = %+v", got)
	}
}

func TestCallbacks(t *testing.T) {
	for _, c := range []struct {
		name, message string
		thread        string
		out           bool
	}{
		{"of a message", `{"message_id":7,"date":5,"chat":{"id":-100,"type":"supergroup"},"is_topic_message":true,"message_thread_id":12}`, "12", false},
		{"of one that is too old", `{"message_id":7,"date":0,"chat":{"id":-100,"type":"supergroup"}}`, "", false},
		{"of an inline message", ``, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.message
			if m != "" {
				m = `"message":` + m + `,`
			}
			r := convert(t, mention.Settings{RequireMention: true}, me, `{"update_id":1,"callback_query":{"id":"cb1","from":{"id":5},`+m+`"data":"ok:1"}}`)
			if (r.V == inbound.Skipped) != c.out {
				t.Fatalf("verdict %v", r.V)
			}
			if c.out {
				return
			}
			want := chat.Inbound{
				IdempotencyKey: "cb1", ID: "7", Kind: chat.Callback, Text: "ok:1", Addressed: true, SentAt: time.Unix(42, 0).UTC(),
				Address: chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-100", Thread: c.thread}, Sender: chat.Person{ID: "5"},
			}
			if d := cmp.Diff(want, r.In); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	at := func(k chat.Kind, id, thread string) chat.Address {
		return chat.Address{Platform: chat.Telegram, Kind: k, Chat: id, Thread: thread}
	}
	msg := func(ch, more string) string {
		return `{"update_id":1,"message":{"message_id":7,"date":1,"from":{"id":5},"text":"x","chat":` + ch + more + `}}`
	}
	for _, c := range []struct {
		name, raw string
		want      chat.Address
	}{
		{"direct", msg(`{"id":5,"type":"private"}`, ``), at(chat.DM, "5", "")},
		{"direct topic", msg(`{"id":5,"type":"private"}`, `,"is_topic_message":true,"message_thread_id":8`), at(chat.DM, "5", "8")},
		{"group", msg(`{"id":-5,"type":"group"}`, ``), at(chat.Group, "-5", "")},
		{"supergroup", msg(`{"id":-100,"type":"supergroup"}`, ``), at(chat.Group, "-100", "")},
		{"thread of replies is no topic", msg(`{"id":-100,"type":"supergroup"}`, `,"message_thread_id":8`), at(chat.Group, "-100", "")},
		{"topic", msg(`{"id":-100,"type":"supergroup","is_forum":true}`, `,"is_topic_message":true,"message_thread_id":8`), at(chat.Group, "-100", "8")},
		{"general", msg(`{"id":-100,"type":"supergroup","is_forum":true}`, ``), at(chat.Group, "-100", "")},
		{"channel's direct messages", msg(`{"id":-100,"type":"supergroup"}`, `,"direct_messages_topic":{"topic_id":4}`), at(chat.Group, "-100", "d4")},
		{"channel", `{"update_id":1,"channel_post":{"message_id":7,"date":1,"text":"x","chat":{"id":-9,"type":"channel","title":"C"}}}`, at(chat.Channel, "-9", "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, convert(t, mention.Settings{}, me, c.raw).In.Address); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAGroupThatMoves(t *testing.T) {
	got := convert(t, mention.Settings{}, me, `{"update_id":1,"message":{"message_id":7,"date":1,"chat":{"id":-5,"type":"group"},"migrate_to_chat_id":-1005}}`).In
	if got.Kind != chat.Migrated || got.Address.Chat != "-5" || got.MigratedTo == nil || got.MigratedTo.Chat != "-1005" {
		t.Errorf("to: %+v", got)
	}
	got = convert(t, mention.Settings{}, me, `{"update_id":1,"message":{"message_id":1,"date":1,"chat":{"id":-1005,"type":"supergroup"},"migrate_from_chat_id":-5}}`).In
	if got.Kind != chat.Migrated || got.Address.Chat != "-5" || got.MigratedTo == nil || got.MigratedTo.Chat != "-1005" || got.IdempotencyKey != "-1005:1" {
		t.Errorf("from: %+v", got)
	}
}

// What the settings say of a chat goes on holding under its new id.
func TestSettingsFollowAChatThatMoves(t *testing.T) {
	rules, err := mention.NewRules(mention.Settings{RequireMention: true, Free: []string{"-5"}, Allowed: []string{"-5"}, Prompts: map[string]string{"-5": "cats"}})
	if err != nil {
		t.Fatal(err)
	}
	before := inbound.Converter{Me: me, Rules: rules}
	said := func(c inbound.Converter, id string) chat.Inbound {
		in, _, err := c.Convert(json.RawMessage(`{"update_id":1,"message":{"message_id":7,"date":1,"chat":{"id":`+id+`,"type":"supergroup"},"from":{"id":3,"first_name":"B"},"text":"x"}}`), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if in := said(before, "-1005"); in.IgnoreRule == "" {
		t.Errorf("a chat of another id is listened to: %+v", in)
	}
	twice := before.After("-5", "-1005").After("-1005", "-1006")
	for _, id := range []string{"-5", "-1005", "-1006"} {
		if in := said(twice, id); in.IgnoreRule != "" || !in.Addressed || in.Prompt != "cats" {
			t.Errorf("%s: %+v", id, in)
		}
	}
	if in := said(twice, "-1007"); in.IgnoreRule == "" || in.Prompt != "" {
		t.Errorf("a chat of another id is listened to: %+v", in)
	}
}

func TestSendersAreWhoSpeaks(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         chat.Person
	}{
		{"a bot", `"text":"x","from":{"id":3,"is_bot":true,"first_name":"B"}`, chat.Person{ID: "3", Name: "B", Bot: true}},
		{"an anonymous administrator", `"text":"x","from":{"id":1087968824,"is_bot":true},"sender_chat":{"id":-100,"type":"supergroup","title":"Team"}`, chat.Person{ID: "-100", Name: "Team"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, convert(t, mention.Settings{}, me, group(c.fields)).In.Sender); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGroupsWaitForTheBotsName(t *testing.T) {
	unnamed := inbound.Identity{ID: 99}
	if r := convert(t, mention.Settings{}, unnamed, group(`"text":"x"`)); r.V != inbound.NeedsBotName {
		t.Errorf("group message without a name: %+v", r)
	}
	if r := convert(t, mention.Settings{}, unnamed, private("message", `"text":"x"`)); r.V != inbound.Converted {
		t.Errorf("direct message without a name: %+v", r)
	}
}

func TestNewerFieldsDoNotHideAMessage(t *testing.T) {
	for _, fields := range []string{
		`"text":"hi","forward_origin":{"type":"teleport"}`,
		`"text":"hi","reply_to_message":{"message_id":3,"date":1,"chat":{"id":5,"type":"private"},"text":"q","forward_origin":{"type":"teleport"}}`,
		`"text":"hi","paid_media":{"star_count":1,"paid_media":[{"type":"hologram"}]}`,
		`"text":"hi","photo":"not a list"`,
		`"text":"hi","entities":[{"type":"bold","offset":"0"}]`,
	} {
		got := convert(t, mention.Settings{}, me, private("message", fields))
		if got.V != inbound.Converted || !strings.Contains(got.In.Text, "hi") || got.In.IgnoreRule != "" {
			t.Errorf("%s: %+v", fields, got)
		}
	}
}

// FuzzConvert: no update makes conversion fail, panic or say something that
// cannot be stored.
func FuzzConvert(f *testing.F) {
	for _, s := range []string{
		private("message", `"text":"hi"`), private("edited_message", `"text":"hi","edit_date":3`),
		group(`"text":"@HermesBot x","entities":[{"type":"mention","offset":0,"length":10}]`),
		group(`"text":"hi","reply_to_message":{"message_id":1}`),
		`{"update_id":1,"callback_query":{"id":"1","from":{"id":5},"message":{"message_id":7,"date":0,"chat":{"id":1}}}}`,
		`{"update_id":1,"my_chat_member":{"chat":{"id":-1,"type":"group"},"from":{"id":5},"date":1,"new_chat_member":{"status":"kicked"}}}`,
		`{"update_id":1,"message":{}}`, `{"message":null}`, `[]`, `{`, `{"update_id":"x","message":{"chat":7}}`,
		private("message", `"forward_origin":{"type":"x"},"poll":{},"venue":{},"contact":{},"quote":{}`),
		private("message", `"rich_message":{"blocks":[{"type":"table","cells":[[{"text":["a",{"type":"mention","text":"@HermesBot"}]}]]},{"type":"list","items":[{"label":"1.","blocks":[]}]}]}`),
		private("message", `"text":"x","entities":[{"type":"text_link","offset":0,"length":1,"url":"https://a.test"}],"forward_date":1`),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, who := range []inbound.Identity{{}, me} {
			r, err := try(mention.Settings{RequireMention: true, Patterns: []string{"hey"}}, who, raw)
			if err != nil || r.V != inbound.Converted {
				continue
			}
			if r.In.IdempotencyKey == "" || r.In.Address.Chat == "" {
				t.Fatalf("taken without key or chat: %+v", r.In)
			}
			if !utf8.ValidString(r.In.Text) {
				t.Fatalf("text is not UTF-8: %q", r.In.Text)
			}
			if _, err := json.Marshal(r.In); err != nil {
				t.Fatalf("cannot be stored: %v", err)
			}
		}
		if in, ok := (inbound.Converter{}).Quarantined([]byte(raw), 1); ok && (in.IdempotencyKey == "" || in.IgnoreRule == "" || in.Address.Chat == "") {
			t.Fatalf("%+v", in)
		}
	})
}

func TestWhoIsAddressedInAGroup(t *testing.T) {
	must := mention.Settings{RequireMention: true}
	ment := func(off, n string) string {
		return `"entities":[{"type":"mention","offset":` + off + `,"length":` + n + `}]`
	}
	for _, c := range []struct {
		name, fields string
		cfg          mention.Settings
		rule, text   string
	}{
		{"open group", `"text":"hi"`, mention.Settings{}, "", "hi"},
		{"not named", `"text":"hi"`, must, "not_addressed", "hi"},
		{"named at the start", `"text":"@hermesbot, hi",` + ment("0", "10"), must, "", "hi"},
		{"named in the middle", `"text":"hi @HermesBot there",` + ment("3", "10"), must, "", "hi @HermesBot there"},
		{"named behind an emoji", `"text":"😀😀 @HermesBot hi",` + ment("5", "10"), must, "", "😀😀 @HermesBot hi"},
		{"only named", `"text":"@HermesBot",` + ment("0", "10"), must, "", "@HermesBot"},
		{"a longer name is another's", `"text":"@HermesBot2 hi",` + ment("0", "11"), must, "not_addressed", "@HermesBot2 hi"},
		{"another bot is named", `"text":"@OtherBot hi",` + ment("0", "9"), mention.Settings{}, "addressed_to_another_bot", "@OtherBot hi"},
		{"both are named", `"text":"@OtherBot @HermesBot","entities":[{"type":"mention","offset":0,"length":9},{"type":"mention","offset":10,"length":10}]`, must, "", "@OtherBot @HermesBot"},
		{"a person is named", `"text":"@ann hi",` + ment("0", "4"), mention.Settings{}, "", "@ann hi"},
		{"by a text mention", `"text":"Hermes hi","entities":[{"type":"text_mention","offset":0,"length":6,"user":{"id":99}}]`, must, "", "hi"},
		{"command for us", `"text":"/new@hermesbot a","entities":[{"type":"bot_command","offset":0,"length":14}]`, must, "", "/new a"},
		{"command for another", `"text":"/new@otherbot a","entities":[{"type":"bot_command","offset":0,"length":13}]`, mention.Settings{}, "addressed_to_another_bot", "/new@otherbot a"},
		{"command for all, open group", `"text":"/new","entities":[{"type":"bot_command","offset":0,"length":4}]`, mention.Settings{}, "", "/new"},
		{"command for all, closed group", `"text":"/new","entities":[{"type":"bot_command","offset":0,"length":4}]`, must, "not_addressed", "/new"},
		{"reply to ours", `"text":"yes","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"},"from":{"id":99}}`, must, "", "yes"},
		{"reply to another", `"text":"yes","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"},"from":{"id":98}}`, must, "not_addressed", "yes"},
		{"our topic's root is no reply", `"text":"yes","is_topic_message":true,"message_thread_id":1,"reply_to_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"},"from":{"id":99},"forum_topic_created":{"name":"T"}}`, must, "not_addressed", "yes"},
		{"caption", `"caption":"@HermesBot see","caption_entities":[{"type":"mention","offset":0,"length":10}],"photo":[{"file_id":"p"}]`, must, "", "see"},
		{"pattern", `"text":"hey HERMES!"`, mention.Settings{RequireMention: true, Patterns: []string{`\bhermes\b`}}, "", "hey HERMES!"},
		{"pattern in a chat with native mentions only", `"text":"hey HERMES!"`, mention.Settings{RequireMention: true, Patterns: []string{`\bhermes\b`}, Native: []string{"-100"}}, "not_addressed", "hey HERMES!"},
		{"named in a chat with native mentions only", `"text":"@HermesBot hi",` + ment("0", "10"), mention.Settings{RequireMention: true, Native: []string{"-100"}}, "", "hi"},
		{"free chat", `"text":"hi"`, mention.Settings{RequireMention: true, Free: []string{"-100"}}, "", "hi"},
		{"chat not allowed", `"text":"hi"`, mention.Settings{Allowed: []string{"-101"}}, "chat_not_in_allowed_chats", "hi"},
		{"chat allowed", `"text":"hi"`, mention.Settings{Allowed: []string{"-100"}}, "", "hi"},
		{"own message", `"text":"hi","from":{"id":99,"is_bot":true}`, mention.Settings{}, "own_message", "hi"},
		{"a join", `"new_chat_members":[{"id":6}]`, mention.Settings{}, "service_message", ""},
		{"a pin", `"pinned_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"}}`, mention.Settings{}, "service_message", ""},
		{"a new topic", `"forum_topic_created":{"name":"T"}`, mention.Settings{}, "service_message", ""},
		{"automatic forward", `"text":"x","is_automatic_forward":true`, mention.Settings{}, "automatic_forward", "x"},
		{"unknown content", `"hologram":{}`, mention.Settings{}, "unsupported_content", ""},
		{"hostile offsets", `"text":"a","entities":[{"type":"mention","offset":-5,"length":3},{"type":"mention","offset":9223372036854775807,"length":9223372036854775807},{"type":"bot_command","offset":0,"length":-1}]`, mention.Settings{}, "", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := convert(t, c.cfg, me, group(c.fields)).In
			if got.IgnoreRule != c.rule || got.Text != c.text {
				t.Errorf("rule %q text %q, want %q and %q", got.IgnoreRule, got.Text, c.rule, c.text)
			}
			if silent := c.rule == "not_addressed" || c.rule == "addressed_to_another_bot"; silent && got.Addressed {
				t.Error("addressed although it is not for us")
			}
		})
	}
}

func TestAPatternThatIsNoneIsNamed(t *testing.T) {
	_, err := mention.NewRules(mention.Settings{Patterns: []string{"ok", "(?=x)"}})
	if err == nil || !strings.Contains(err.Error(), `"(?=x)"`) {
		t.Errorf("%v", err)
	}
}
