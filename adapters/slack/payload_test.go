package slack_test

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

func TestPayloadsOfOthers(t *testing.T) { playPayloads(t, adaptertest.SharedPayloads(t, chat.Slack)) }

// unread are pieces of payloads that are not part of what people send: previews of
// links, titles of files next to their names, and names that were replaced in one
// of two forms of a text.
var unread = map[string][]string{
	"sl-c29ad0587b": {"Chart"},
	"sl-848edbe932": {"@redacted test39"},
	"sl-c5581048a8": {"@UA22B84GG help"},
	"sl-5d64751e51": {"My HTML file"},
	"sl-c8617df16a": {"test text"},
	"sl-88d5d624cd": {"Chat SDK for building bots"},
	"sl-3bbf887e9a": {"Some post title"},
	"sl-6e01fb4f81": {"Workflow"},
	"sl-8c2358ca43": {
		"Nyheter fra Norges mest leste nettavis – VG",
		"Norges største nettsted. Oppdateres minutt for minutt på siste nytt innen sport, innenriks, utenriks, og underholdning.",
	},
	"sl-a98517db2b": {
		"proposal: expression to create pointer to simple types · Issue #45624 · golang/go",
		"This notion was addressed in #9097, which was shut down rather summarily. Rather than reopen it, let me take another approach. " +
			"When &S{} was added to the language as a way to construct a pointe...",
	},
}

// playPayloads sends payloads to an adapter in envelopes. Each message must become
// one event with everything that people see in it.
func playPayloads(t *testing.T, payloads []adaptertest.Payload) {
	inBubble(t, func(t *testing.T, w *world) {
		tape := adaptertest.NewTape(t)
		config := w.config("")
		config.RequireMention = false
		running(t, w.adapter(config, ""), tape)
		for i, p := range payloads {
			p.Without(unread[p.ID]...)
			w.bots[""].App().SendRaw(frame(t, i, p))
			pass(2 * time.Second)
			got := tape.Take()
			isChange := strings.Contains(p.Kind, "message_changed") // not each is an edit
			if !p.Is("message", "app_mention", "slash_command") || isChange && p.Rule == nil {
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
			if strings.Contains(got[0].Text, "cannot read") && !got[0].Sender.Bot {
				t.Errorf("%s, %s: %q", p.ID, p.Kind, got[0].Text)
			}
		}
	})
}

// frame returns the envelope of a payload, as Slack sends it on a socket. An event
// without its callback is the event itself.
func frame(t *testing.T, n int, p adaptertest.Payload) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(p.Payload, &fields); err != nil {
		t.Fatalf("%s: %v", p.ID, err)
	}
	if inner := fields["payload"]; inner != nil && fields["envelope_id"] != nil {
		if err := json.Unmarshal(inner, &fields); err != nil {
			t.Fatalf("%s: %v", p.ID, err)
		}
	}
	kind := "events_api"
	switch {
	case fields["command"] != nil:
		kind = "slash_commands"
	case fields["trigger_id"] != nil:
		kind = "interactive"
	case fields["event"] == nil:
		event, _ := json.Marshal(fields)
		fields = map[string]json.RawMessage{"type": json.RawMessage(`"event_callback"`), "event": event}
	}
	if raw := fields["event"]; raw != nil {
		fields["event"] = located(t, n, raw)
	}
	payload, _ := json.Marshal(fields)
	return fmt.Sprintf(`{"type":%q,"envelope_id":"payload-%d","payload":%s}`, kind, n, payload)
}

// located returns an event with the fields that documentation leaves out.
func located(t *testing.T, n int, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var event map[string]json.RawMessage
	if err := json.Unmarshal(raw, &event); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"channel": `"C0PAYLOAD"`, "ts": fmt.Sprintf(`"1700000000.%06d"`, n)} {
		if event[name] == nil {
			event[name] = json.RawMessage(v)
		}
	}
	out, _ := json.Marshal(event)
	return out
}
