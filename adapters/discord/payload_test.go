package discord_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/discord"
)

// unread are pieces of payloads in which an ID stands for a name of several words.
var unread = map[string][]string{
	"di-554098e06a": {"@1457469483726668048 Test"},
	"di-c63cbf466f": {"@1457469483726668048 Hey"},
}

// TestPayloadsOfOthers: each message becomes one event with everything that people
// see in it.
func TestPayloadsOfOthers(t *testing.T) {
	payloads := adaptertest.SharedPayloads(t, chat.Discord)
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t, func(c *discord.Config) { c.RequireMention = false })
		before := len(r.inbox.Events())
		for _, p := range payloads {
			p.Without(unread[p.ID]...)
			kind, _, _ := strings.Cut(p.Kind, "/")
			var event struct {
				Data json.RawMessage `json:"d"`
			}
			if err := json.Unmarshal(p.Payload, &event); err != nil {
				t.Fatalf("%s: %v", p.ID, err)
			}
			if event.Data == nil {
				event.Data = p.Payload
			}
			w.bots[""].Dispatch(kind, event.Data)
			pass(20 * time.Second)
			got := r.inbox.Events()[before:]
			before += len(got)
			switch isMessage := p.Is("MESSAGE_CREATE") && p.Kind != "MESSAGE_CREATE/no_type"; {
			case isMessage && len(got) == 1:
				p.Check(t, got[0])
				if strings.Contains(got[0].Text, "cannot read") {
					t.Errorf("%s, %s: %q", p.ID, p.Kind, got[0].Text)
				}
			case isMessage || len(got) > 1:
				t.Errorf("%s, %s: %d events", p.ID, p.Kind, len(got))
			}
		}
	})
}
