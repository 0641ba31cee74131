package inbound_test

import (
	"strings"
	"testing"

	"hermesd/adapters/telegram/internal/inbound"
)

func TestWhoIsAddressedInAGroup(t *testing.T) {
	must := inbound.Settings{RequireMention: true}
	ment := func(off, n string) string {
		return `"entities":[{"type":"mention","offset":` + off + `,"length":` + n + `}]`
	}
	for _, c := range []struct {
		name, fields string
		cfg          inbound.Settings
		rule, text   string
	}{
		{"open group", `"text":"hi"`, inbound.Settings{}, "", "hi"},
		{"not named", `"text":"hi"`, must, "not_addressed", "hi"},
		{"named at the start", `"text":"@hermesbot, hi",` + ment("0", "10"), must, "", "hi"},
		{"named in the middle", `"text":"hi @HermesBot there",` + ment("3", "10"), must, "", "hi @HermesBot there"},
		{"named behind an emoji", `"text":"😀😀 @HermesBot hi",` + ment("5", "10"), must, "", "😀😀 @HermesBot hi"},
		{"only named", `"text":"@HermesBot",` + ment("0", "10"), must, "", "@HermesBot"},
		{"a longer name is another's", `"text":"@HermesBot2 hi",` + ment("0", "11"), must, "not_addressed", "@HermesBot2 hi"},
		{"another bot is named", `"text":"@OtherBot hi",` + ment("0", "9"), inbound.Settings{}, "addressed_to_another_bot", "@OtherBot hi"},
		{"both are named", `"text":"@OtherBot @HermesBot","entities":[{"type":"mention","offset":0,"length":9},{"type":"mention","offset":10,"length":10}]`, must, "", "@OtherBot @HermesBot"},
		{"a person is named", `"text":"@ann hi",` + ment("0", "4"), inbound.Settings{}, "", "@ann hi"},
		{"by a text mention", `"text":"Hermes hi","entities":[{"type":"text_mention","offset":0,"length":6,"user":{"id":99}}]`, must, "", "hi"},
		{"command for us", `"text":"/new@hermesbot a","entities":[{"type":"bot_command","offset":0,"length":14}]`, must, "", "/new a"},
		{"command for another", `"text":"/new@otherbot a","entities":[{"type":"bot_command","offset":0,"length":13}]`, inbound.Settings{}, "addressed_to_another_bot", "/new@otherbot a"},
		{"command for all, open group", `"text":"/new","entities":[{"type":"bot_command","offset":0,"length":4}]`, inbound.Settings{}, "", "/new"},
		{"command for all, closed group", `"text":"/new","entities":[{"type":"bot_command","offset":0,"length":4}]`, must, "not_addressed", "/new"},
		{"reply to ours", `"text":"yes","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"},"from":{"id":99}}`, must, "", "yes"},
		{"reply to another", `"text":"yes","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"},"from":{"id":98}}`, must, "not_addressed", "yes"},
		{"our topic's root is no reply", `"text":"yes","is_topic_message":true,"message_thread_id":1,"reply_to_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"},"from":{"id":99},"forum_topic_created":{"name":"T"}}`, must, "not_addressed", "yes"},
		{"caption", `"caption":"@HermesBot see","caption_entities":[{"type":"mention","offset":0,"length":10}],"photo":[{"file_id":"p"}]`, must, "", "see"},
		{"pattern", `"text":"hey HERMES!"`, inbound.Settings{RequireMention: true, Patterns: []string{`\bhermes\b`}}, "", "hey HERMES!"},
		{"pattern in a chat with native mentions only", `"text":"hey HERMES!"`, inbound.Settings{RequireMention: true, Patterns: []string{`\bhermes\b`}, Native: []string{"-100"}}, "not_addressed", "hey HERMES!"},
		{"named in a chat with native mentions only", `"text":"@HermesBot hi",` + ment("0", "10"), inbound.Settings{RequireMention: true, Native: []string{"-100"}}, "", "hi"},
		{"free chat", `"text":"hi"`, inbound.Settings{RequireMention: true, Free: []string{"-100"}}, "", "hi"},
		{"chat not allowed", `"text":"hi"`, inbound.Settings{Allowed: []string{"-101"}}, "chat_not_in_allowed_chats", "hi"},
		{"chat allowed", `"text":"hi"`, inbound.Settings{Allowed: []string{"-100"}}, "", "hi"},
		{"own message", `"text":"hi","from":{"id":99,"is_bot":true}`, inbound.Settings{}, "own_message", "hi"},
		{"a join", `"new_chat_members":[{"id":6}]`, inbound.Settings{}, "service_message", ""},
		{"a pin", `"pinned_message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"}}`, inbound.Settings{}, "service_message", ""},
		{"a new topic", `"forum_topic_created":{"name":"T"}`, inbound.Settings{}, "service_message", ""},
		{"automatic forward", `"text":"x","is_automatic_forward":true`, inbound.Settings{}, "automatic_forward", "x"},
		{"unknown content", `"hologram":{}`, inbound.Settings{}, "unsupported_content", ""},
		{"hostile offsets", `"text":"a","entities":[{"type":"mention","offset":-5,"length":3},{"type":"mention","offset":9223372036854775807,"length":9223372036854775807},{"type":"bot_command","offset":0,"length":-1}]`, inbound.Settings{}, "", "a"},
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
	_, err := inbound.NewRules(inbound.Settings{Patterns: []string{"ok", "(?=x)"}})
	if err == nil || !strings.Contains(err.Error(), `"(?=x)"`) {
		t.Errorf("%v", err)
	}
}
