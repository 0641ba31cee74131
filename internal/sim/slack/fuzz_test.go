package slack_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"hermesd/internal/sim/slack"
)

// FuzzRequest checks that the answer to any request is JSON with ok and, unless
// ok is true, an error, and that the status is one that Slack uses.
func FuzzRequest(f *testing.F) {
	f.Add("application/json", "", `{"channel":"general","text":"x","blocks":[{"type":"section","text":{"type":"mrkdwn","text":"x"}}]}`, uint8(0))
	f.Add("application/json; charset=utf-8", "ts=1.0", `{"channel":"general","metadata":{"event_type":"x","event_payload":{}},"text":"x"}`, uint8(1))
	f.Add("multipart/form-data; boundary=b", "", "--b\r\nContent-Disposition: form-data; name=\"channel\"\r\n\r\ngeneral\r\n--b--\r\n", uint8(2))
	f.Add("application/x-www-form-urlencoded", "cursor=bmV4dF90czo=", "channel=general&limit=1&oldest=1.5", uint8(3))
	f.Add("", "users=U1,,U2&files=[{}]&types=im,", "", uint8(4))
	methods := []string{
		"chat.postMessage", "chat.update", "chat.postEphemeral", "conversations.history", "conversations.open", "conversations.replies",
		"conversations.list", "files.getUploadURLExternal", "files.completeUploadExternal", "reactions.add", "assistant.threads.setStatus",
		"apps.connections.open", "users.list", "chat.delete",
	}
	s := slack.New(slack.Options{CountersOnly: true})
	f.Cleanup(s.Close)
	team := s.AddTeam("Acme")
	bot := s.AddApp(slack.AppOptions{}).Install(team)
	team.AddChannel(slack.ChannelOptions{Name: "general", Members: []*slack.User{bot.User()}})
	f.Fuzz(func(t *testing.T, kind, query, body string, pick uint8) {
		req := httptest.NewRequest("POST", "/api/"+methods[int(pick)%len(methods)], strings.NewReader(body))
		req.URL.RawQuery = query
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Authorization", "Bearer "+bot.Token())
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		var a struct {
			OK    *bool
			Error string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.OK == nil || *a.OK == (a.Error != "") {
			t.Errorf("HTTP %d, %v: %s", w.Code, err, w.Body)
		}
		if w.Code != 200 && w.Code != 413 {
			t.Errorf("HTTP %d", w.Code)
		}
	})
}

// FuzzFrame checks that a frame of an app acknowledges only envelopes that were
// sent on its socket.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{`{"envelope_id":"x"}`, `{"envelope_id":7}`, `[]`, "", `{"payload":{"text":"x"}}`, "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		p := newPlace(t, slack.Options{}, slack.AppOptions{})
		k := p.open(t)
		p.dm.Say(p.ann, "hello")
		frame := k.next()
		if strings.Contains(string(said), frame.Envelope) {
			t.Skip()
		}
		if err := k.conn.WriteMessage(1, said); err != nil {
			t.Fatal(err)
		}
		k.ack(frame)
		if err := p.Recorder().WaitCount(t.Context(), 1, func(c slack.Counts) int { return c.Acked }); err != nil {
			t.Fatal(err)
		}
		if c := p.Recorder().Counts(); c.Strange != 1 || c.Acked != 1 {
			t.Errorf("counts: %+v", c)
		}
	})
}
