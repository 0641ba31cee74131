package telegram_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/gateway/chat"
)

func TestPayloadsOfDefects(t *testing.T) { playPayloads(t, adaptertest.OwnPayloads(t)) }

func TestPayloadsOfOthers(t *testing.T) {
	playPayloads(t, adaptertest.SharedPayloads(t, chat.Telegram))
}

// unread are pieces of payloads that are not part of what people send: names of
// the same file and number twice, and how the cells of a table are aligned.
var unread = map[string][]string{
	"te-99cb3a28e0": {"sdaafsghhjhgkkygrssgdfghgfdgh.mp4"},
	"te-521deca889": {"618490765"},
	"te-0dde15251f": {"center", "middle", "left"},
}

// playPayloads sends payloads to an adapter as updates. Each message must become
// one event with everything that people see in it.
func playPayloads(t *testing.T, payloads []adaptertest.Payload) {
	inBubble(t, func(t *testing.T, w *world) {
		tape := adaptertest.NewTape(t)
		config := w.config("")
		config.RequireMention = false
		running(t, w.adapter(config, ""), tape)
		_ = tape.Take() // of the simulator
		for _, p := range payloads {
			p.Without(unread[p.ID]...)
			kind, content := update(t, p)
			w.bots[""].PushRaw(kind, func(id int) []byte {
				return fmt.Appendf(nil, `{"update_id":%d,%q:%s}`, id, kind, content)
			})
			pass(2 * time.Second)
			got := tape.Take()
			if !p.Is("message", "edited_message", "channel_post", "edited_channel_post") {
				if len(got) > 1 {
					t.Errorf("%s, %s: %+v", p.ID, p.Kind, got)
				}
				continue
			}
			if len(got) != 1 {
				t.Errorf("%s, %s: %d events", p.ID, p.Kind, len(got))
				continue
			}
			p.Check(t, got[0])
			if strings.Contains(got[0].Text, "cannot read") {
				t.Errorf("%s, %s: %q", p.ID, p.Kind, got[0].Text)
			}
			if strings.Contains(p.Kind, "service:") && got[0].Kind != chat.Migrated && got[0].IgnoreRule == "" {
				t.Errorf("%s, %s is answered", p.ID, p.Kind)
			}
		}
	})
}

// update returns the kind and the object of an update. A payload without
// update_id is the object itself.
func update(t *testing.T, p adaptertest.Payload) (kind string, content json.RawMessage) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(p.Payload, &fields); err != nil {
		t.Fatalf("%s: %v", p.ID, err)
	}
	kind, _, _ = strings.Cut(p.Kind, "/")
	if fields["update_id"] == nil {
		return kind, p.Payload
	}
	return kind, fields[kind]
}
