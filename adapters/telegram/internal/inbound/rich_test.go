package inbound_test

import (
	"strings"
	"testing"

	"hermesd/adapters/internal/mention"
	"hermesd/gateway/chat"
)

func TestRichMessageBlocks(t *testing.T) {
	for _, c := range []struct{ name, blocks, want string }{
		{"paragraph", `{"type":"paragraph","text":["a ",{"type":"bold","text":"b"},{"type":"custom_emoji","alternative_text":"👍"}]}`, "a b👍"},
		{"link", `{"type":"paragraph","text":{"type":"url","text":"here","url":"https://example.com/x"}}`, "here (https://example.com/x)"},
		{"link that is its own label", `{"type":"paragraph","text":{"type":"url","text":"example.com","url":"https://example.com/"}}`, "example.com"},
		{"code", `{"type":"pre","text":"x := 1","language":"go"}`, "```go\nx := 1\n```"},
		{"formula", `{"type":"mathematical_expression","expression":"a^2"}`, "a^2"},
		{"list", `{"type":"list","items":[{"label":"1.","blocks":[{"type":"paragraph","text":"one"},{"type":"paragraph","text":"more"}]},{"label":"•","has_checkbox":true,"is_checked":true,"blocks":[{"type":"paragraph","text":"two"}]}]}`, "1. one\n  more\n- [x] two"},
		{"quotation", `{"type":"blockquote","blocks":[{"type":"paragraph","text":"a"},{"type":"paragraph","text":"b"}],"credit":"Ann"}`, "> a\n> b\n— Ann"},
		{"details", `{"type":"details","summary":"more","blocks":[{"type":"paragraph","text":"inside"}]}`, "more\ninside"},
		{"table", `{"type":"table","caption":"Prices","cells":[[{"text":"a|b"},{}]]}`, "| a\\|b |  |\nPrices"},
		{"buttons", `{"type":"buttons","buttons":[{"text":"Open","url":"https://example.com"}]}`, "[Open (https://example.com)]"},
		{"newer than the library", `{"type":"poem","text":"roses","blocks":[{"type":"stanza","text":"are red"}]}`, "roses\nare red"},
		{"of another form", `{"type":"paragraph","text":{"text":"no type"}},{"type":"paragraph","text":7},7,{"type":"paragraph","text":"end"}`, "no type\nend"},
		{"deep", strings.Repeat(`{"type":"details","blocks":[`, 60) + `{"type":"paragraph","text":"x"}` + strings.Repeat(`]}`, 60) + `,{"type":"paragraph","text":"end"}`, "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := convert(t, mention.Settings{}, me, private("message", `"rich_message":{"blocks":[`+c.blocks+`]}`)).In
			if got.Text != c.want || got.IgnoreRule != "" || got.Part != nil {
				t.Errorf("got %q, want %q, %+v", got.Text, c.want, got)
			}
		})
	}
}

func TestRichMessageMedia(t *testing.T) {
	got := convert(t, mention.Settings{}, me, private("message", `"rich_message":{"blocks":[`+
		`{"type":"collage","blocks":[{"type":"photo","photo":[{"file_id":"p","width":1,"height":1}],"caption":{"text":"a cat","credit":"Bob"}},`+
		`{"type":"voice_note","voice_note":{"file_id":"v"}}]},{"type":"document","document":{"file_id":"d","file_name":"a.pdf"}}]}`)).In
	if got.Text != "a cat — Bob" || len(got.Files) != 3 || got.Files[0].Kind != chat.Photo || got.Files[1].Kind != chat.Voice || got.Files[2].Name != "a.pdf" {
		t.Errorf("%+v", got)
	}
}

func TestRichMessageMentions(t *testing.T) {
	for blocks, want := range map[string]string{
		`{"type":"paragraph","text":[{"type":"mention","text":"@HermesBot","username":"HermesBot"}," hi"]}`:                           "hi",
		`{"type":"heading","size":1,"text":"👍 x"},{"type":"paragraph","text":["ask ",{"type":"mention","text":"@hermesbot"}]}`:        "# 👍 x\nask @hermesbot",
		`{"type":"paragraph","text":[{"type":"text_mention","text":"Hermes","user":{"id":99,"is_bot":true,"first_name":"H"}}," hi"]}`: "hi",
		`{"type":"paragraph","text":[{"type":"bot_command","text":"/new@HermesBot"}," x"]}`:                                           "/new x",
		`{"type":"paragraph","text":"hi"}`: "",
	} {
		got := convert(t, mention.Settings{RequireMention: true}, me, group(`"rich_message":{"blocks":[`+blocks+`]}`)).In
		if got.Addressed != (want != "") || want != "" && (got.Text != want || got.IgnoreRule != "") {
			t.Errorf("%s: %+v", blocks, got)
		}
	}
	reply := convert(t, mention.Settings{}, me, private("message", `"text":"x","reply_to_message":{"message_id":3,"date":1,"chat":{"id":5,"type":"private"},"rich_message":{"blocks":[{"type":"paragraph","text":"q"}]}}`)).In
	if reply.ReplyTo == nil || reply.ReplyTo.Text != "q" {
		t.Errorf("%+v", reply.ReplyTo)
	}
}

func TestLinkTargets(t *testing.T) {
	for _, c := range []struct{ fields, want string }{
		{`"text":"👍 see here.","entities":[{"type":"text_link","offset":3,"length":3,"url":"https://a.test"},{"type":"text_link","offset":7,"length":4,"url":"https://b.test/x"}]`, "👍 see (https://a.test) here (https://b.test/x)."},
		{`"text":"a.test","entities":[{"type":"text_link","offset":0,"length":6,"url":"https://a.test/"}]`, "a.test"},
		{`"text":"google.com","entities":[{"type":"text_link","offset":0,"length":10,"url":"https://evil.test/"}]`, "google.com (https://evil.test/)"},
		{`"text":"x","entities":[{"type":"text_link","offset":0,"length":9,"url":"https://a.test/"}]`, "x"},
		{`"caption":"here","caption_entities":[{"type":"text_link","offset":0,"length":4,"url":"https://a.test/"}]`, "here (https://a.test/)"},
		{`"text":"@HermesBot here","entities":[{"type":"mention","offset":0,"length":10},{"type":"text_link","offset":11,"length":4,"url":"https://a.test/"}]`, "here (https://a.test/)"},
	} {
		if got := convert(t, mention.Settings{}, me, private("message", c.fields)).In; got.Text != c.want {
			t.Errorf("got %q, want %q", got.Text, c.want)
		}
	}
}

func TestDescriptionsOfPollsAndGames(t *testing.T) {
	for fields, want := range map[string]string{
		`"poll":{"question":"Lunch?","description":"today","options":[{"text":"yes"}]}`: "[poll: Lunch?]\ntoday\n- yes",
		`"game":{"title":"G","description":"run"}`:                                      "[game: G]\nrun",
		`"invoice":{"title":"I","description":"pay"}`:                                   "[invoice: I]\npay",
		`"audio":{"file_id":"a","performer":"Ann","title":"Home"}`:                      "[audio: Ann – Home]",
		`"audio":{"file_id":"a","performer":"Ann"}`:                                     "[audio: Ann]",
		`"audio":{"file_id":"a","title":"Home"}`:                                        "[audio: Home]",
		`"audio":{"file_id":"a"}`:                                                       "",
	} {
		if got := convert(t, mention.Settings{}, me, private("message", fields)).In.Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestServiceMessagesNewerThanTheLibrary(t *testing.T) {
	for field, rule := range map[string]string{
		"poll_option_merged": "service_message", "chat_photo_set": "service_message", "hologram": "",
	} {
		got := convert(t, mention.Settings{}, me, private("message", `"`+field+`":{}`)).In
		if got.IgnoreRule != rule || rule == "" && got.Text == "" {
			t.Errorf("%s: %+v", field, got)
		}
	}
	if got := convert(t, mention.Settings{}, me, private("message", `"text":"hi","message_moved":{}`)).In; got.IgnoreRule != "" {
		t.Errorf("a text with a newer field: %+v", got)
	}
}
