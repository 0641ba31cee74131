package inbound_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"hermesd/adapters/telegram/internal/inbound"
)

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
			r, err := try(inbound.Settings{RequireMention: true, Patterns: []string{"hey"}}, who, raw)
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
