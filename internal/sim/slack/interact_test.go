package slack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/slack"
)

const buttons = `[{"type":"section","text":{"type":"mrkdwn","text":"Run it?"},"accessory":{"type":"button","action_id":"side","value":"s"}},
	{"type":"actions","block_id":"ask","elements":[{"type":"button","action_id":"yes","value":"42","text":{"type":"plain_text","text":"Yes"}}]}]`

// respond sends a request to a response URL and returns status and body.
func (p *place) respond(t *testing.T, address, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := p.web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(raw))
}

func TestSlashCommands(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{Commands: []string{"/hermes"}}, func(t *testing.T, p *place) {
		k := p.open(t)
		i := p.room.Slash(p.bot, p.ann, "/hermes", "status all")
		f := k.next()
		if f.Type != "slash_commands" || !f.Accepts || f.Payload.Command != "/hermes" || f.Payload.Text != "status all" ||
			f.Payload.ResponseURL != i.ResponseURL() || strings.Contains(f.Raw, "retry_attempt") {
			t.Errorf("frame: %s", f.Raw)
		}
		answer := map[string]any{"envelope_id": f.Envelope, "payload": map[string]string{"text": "fine", "response_type": "in_channel"}}
		if err := k.conn.WriteJSON(answer); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if raw, acked := i.Acked(); !acked || !strings.Contains(string(raw), "fine") || i.Failed() != "" || texts(p.room.FromBots()) != "fine" {
			t.Errorf("acknowledged %v with %s; channel %s", acked, raw, texts(p.room.FromBots()))
		}
	})
}

// TestCommandsThatFail checks that they are not sent again and that the person
// sees an error.
func TestCommandsThatFail(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		if i := p.dm.Slash(p.bot, p.ann, "/hermes", ""); i.Failed() != "dispatch_failed" {
			t.Errorf("without a socket: %q", i.Failed())
		}
		k := p.open(t)
		i := p.dm.Slash(p.bot, p.ann, "/hermes", "")
		if f := k.next(); !strings.Contains(f.Raw, "directmessage") {
			t.Errorf("frame: %s", f.Raw)
		}
		k.quiet(time.Hour)
		if c := p.Recorder().Counts(); i.Failed() != "operation_timeout" || c.Lost != 2 || c.Delivered != 1 {
			t.Errorf("%q, %+v", i.Failed(), c)
		}
	})
}

// TestResponseURLs checks that they can be used five times within half an hour.
func TestResponseURLs(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		address := p.room.Slash(p.bot, p.ann, "/hermes", "").ResponseURL()
		k.ack(k.next())
		if got := p.respond(t, address, `{}`); got != `400 {"error":"no_text","ok":false}` {
			t.Errorf("empty: %s", got)
		}
		for n := range 5 {
			if got := p.respond(t, address, fmt.Sprintf(`{"text":"n%d"}`, n)); got != "200 ok" {
				t.Errorf("use %d: %s", n, got)
			}
		}
		if got := p.respond(t, address, `{"text":"x"}`); !strings.Contains(got, "404") || !strings.Contains(got, "used_url") {
			t.Errorf("sixth: %s", got)
		}
		if got := texts(p.room.Ephemeral()); got != "n0|n1|n2|n3|n4" || p.room.Ephemeral()[0].To != p.ann.ID() {
			t.Errorf("seen: %s", got)
		}
		late := p.room.Slash(p.bot, p.ann, "/hermes", "").ResponseURL()
		<-time.After(31 * time.Minute)
		if got := p.respond(t, late, `{"text":"x"}`); !strings.Contains(got, "expired_url") {
			t.Errorf("late: %s", got)
		}
		if got := p.respond(t, address+"0", `{"text":"x"}`); !strings.Contains(got, "expired_url") {
			t.Errorf("forged: %s", got)
		}
	})
}

func TestButtons(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		root := p.room.Say(p.ann, "root").TS
		k.ack(k.next())
		ts := p.post1(t, p.room, "", "blocks", buttons, "thread_ts", root)
		k.ack(k.next())
		for _, action := range []string{"yes", "side"} {
			i, err := p.room.Press(p.ann, ts, action)
			if err != nil {
				t.Fatal(err)
			}
			f := k.next()
			k.ack(f)
			var pressed struct {
				Payload struct {
					Type      string
					User      struct{ ID string }
					Channel   struct{ ID string }
					Message   message
					Container struct {
						TS     string `json:"message_ts"`
						Thread string `json:"thread_ts"`
					}
					Actions []struct {
						Action string `json:"action_id"`
						Block  string `json:"block_id"`
						Value  string
					}
				}
			}
			if err := json.Unmarshal([]byte(f.Raw), &pressed); err != nil {
				t.Fatal(err)
			}
			b := pressed.Payload
			if f.Type != "interactive" || b.Type != "block_actions" || b.User.ID != p.ann.ID() || b.Channel.ID != p.room.ID() || b.Message.TS != ts ||
				b.Container.TS != ts || b.Container.Thread != root || b.Actions[0].Action != action || b.Actions[0].Value == "" {
				t.Errorf("frame: %s", f.Raw)
			}
			if action == "side" {
				if got := p.respond(t, i.ResponseURL(), `{"replace_original":true,"text":"done"}`); got != "200 ok" {
					t.Errorf("replace: %s", got)
				}
				k.ack(k.next())
			}
		}
		if got := texts(p.room.FromBots()); got != "done" {
			t.Errorf("after it: %s", got)
		}
		if _, err := p.room.Press(p.ann, ts, "yes"); err == nil {
			t.Error("a button that is gone was pressed")
		}
		i := p.room.Forge(p.bot, p.ann, ts, "yes", "other")
		if f := k.next(); !strings.Contains(f.Raw, `"value":"other"`) {
			t.Errorf("forged: %s", f.Raw)
		}
		if got := p.respond(t, i.ResponseURL(), `{"delete_original":"true"}`); got != "200 ok" || len(p.room.FromBots()) != 0 {
			t.Errorf("delete: %s, %s", got, texts(p.room.FromBots()))
		}
		p.room.Forge(p.bot, p.ann, "1.000001", "yes", "")
		if o := p.Recorder().Offers("block_actions"); len(o) != 4 || o[3].TS != "" || o[0].Thread != root || o[0].Text != "yes" {
			t.Errorf("offers: %+v", o)
		}
	})
}

// TestFilesByHand checks the three steps of an upload and their errors, without
// a library.
func TestFilesByHand(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	mustRefuse(t, p.call(t, "files.getUploadURLExternal", "length", "3"), "invalid_arguments")
	mustRefuse(t, p.call(t, "files.getUploadURLExternal", "filename", "a.txt", "length", "0"), "invalid_arguments")
	a := p.call(t, "files.getUploadURLExternal", "filename", "a.txt", "length", "3")
	mustOK(t, a)
	share := func(id string) answer {
		return p.call(t, "files.completeUploadExternal", "files", `[{"id":"`+id+`"}]`, "channel_id", p.room.ID())
	}
	mustRefuse(t, share(a.FileID), "file_not_found") // it has no content yet
	mustRefuse(t, p.call(t, "files.info", "file", a.FileID), "file_not_found")
	if got := p.respond(t, a.UploadURL, "four"); !strings.HasPrefix(got, "400") {
		t.Errorf("wrong length: %s", got)
	}
	if got := p.respond(t, a.UploadURL+"x", "abc"); !strings.HasPrefix(got, "404") {
		t.Errorf("wrong ticket: %s", got)
	}
	if got := p.respond(t, a.UploadURL, "abc"); got != "200 OK - 3" {
		t.Errorf("upload: %s", got)
	}
	mustRefuse(t, share("F0"), "file_not_found")
	mustRefuse(t, p.call(t, "files.completeUploadExternal", "files", "[]"), "invalid_arguments")
	mustRefuse(t, p.call(t, "files.completeUploadExternal", "files", `[{"id":"`+a.FileID+`"}]`, "channel_id", "C0"), "channel_not_found")
	mustOK(t, share(a.FileID))
	if list := p.room.FromBots(); len(list) != 1 || list[0].Files[0].Title() != "a.txt" || list[0].Files[0].MIME != "text/plain" {
		t.Errorf("shared: %+v", list)
	}
	info := p.call(t, "files.info", "file", a.FileID)
	file, _ := info.Raw["file"].(map[string]any)
	address, _ := file["url_private"].(string)
	get := func(token string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := p.web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"), " ", string(body))
	}
	if got := get(p.bot.Token()); got != "200 text/plain abc" {
		t.Errorf("download: %s", got)
	}
	other := p.app.Install(p.AddTeam("Other"))
	for _, token := range []string{"", "xoxb-other", other.Token(), p.app.Token()} {
		if got := get(token); !strings.HasPrefix(got, "200 text/html") || !strings.Contains(got, "Sign in") {
			t.Errorf("download with %q: %s", token, got)
		}
	}
}
