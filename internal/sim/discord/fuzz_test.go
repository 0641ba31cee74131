package discord_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"hermesd/internal/sim/discord"
)

// FuzzRequests sends any body to the routes with a body: the server accepts or
// refuses it with JSON and continues to work.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"content":"x"}`, `{"content":7}`, `{"components":[{"type":1,"components":[{}]}]}`, `{"name":"a","message":{"embeds":[{}]}}`,
		`[{"name":"run","description":"x","options":[7,{"required":1}]}]`, `{"options":{}}`, `null`, `{"nonce":{"a":1},"enforce_nonce":true}`,
		`{"type":7,"data":{"content":null,"flags":64}}`, `{"archived":true,"name":null}`, `{"allowed_mentions":{"parse":null},"content":"<@1>"}`,
	} {
		f.Add(seed, uint8(0))
	}
	s := discord.New(discord.Options{CountersOnly: true, InvalidRequests: 1 << 50})
	f.Cleanup(s.Close)
	bot, ann := s.AddBot(discord.BotOptions{}), s.AddUser("ann")
	g := s.AddGuild("home", ann)
	g.Join(bot.User())
	f.Fuzz(func(t *testing.T, body string, route uint8) {
		ch := g.AddChannel(discord.ChannelOptions{Name: "x"})
		defer ch.Remove()
		m := ch.Say(ann, "hello")
		paths := []string{
			"POST /channels/" + ch.ID() + "/messages", "PATCH /channels/" + ch.ID(), "POST /channels/" + ch.ID() + "/threads",
			"POST /channels/" + ch.ID() + "/messages/" + m.ID + "/threads", "PUT /applications/" + bot.ID() + "/commands",
			"POST /applications/" + bot.ID() + "/commands", "POST /users/@me/channels", "POST /interactions/1/x/callback",
			"POST /webhooks/1/x", "PATCH /channels/" + ch.ID() + "/messages/" + m.ID,
		}
		method, path, _ := strings.Cut(paths[int(route)%len(paths)], " ")
		for _, kind := range []string{"application/json", "multipart/form-data; boundary=x"} {
			r := httptest.NewRequestWithContext(t.Context(), method, "https://discord.com/api/v9"+path, strings.NewReader(body))
			r.Header.Set("Content-Type", kind)
			r.Header.Set("Authorization", "Bot "+bot.Token())
			r.Header.Set("User-Agent", "DiscordBot (fuzz, 1)")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusNoContent && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s %s: %d %q", method, path, w.Code, w.Body)
			}
			if w.Code >= 500 {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	})
}

// FuzzGateway sends any payload after hello: the connection stays open or is
// closed with a code of the gateway, and the next connection works.
func FuzzGateway(f *testing.F) {
	for _, seed := range []string{
		`{"op":1,"d":null}`, `{"op":1,"d":{}}`, `{"op":2,"d":{"token":"x","intents":-1}}`, `{"op":6,"d":{"seq":-5}}`, `{"op":2,"d":[]}`,
		`{"op":9e99}`, `[]`, `{"op":2,"d":{"token":"TOKEN","intents":513,"shard":[0,0]}}`, `{"op":2,"d":{"token":"TOKEN","intents":33281}}`,
	} {
		f.Add(seed)
	}
	s := discord.New(discord.Options{CountersOnly: true})
	f.Cleanup(s.Close)
	bot := s.AddBot(discord.BotOptions{})
	f.Fuzz(func(t *testing.T, text string) {
		ws, resp, err := discord.Websocket(s.Dial).DialContext(t.Context(), "wss://gateway.discord.gg/?v=9", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		defer func() { _ = ws.Close() }()
		_ = ws.SetReadDeadline(time.Now().Add(10 * time.Second))
		for _, m := range []string{strings.ReplaceAll(text, "TOKEN", bot.Token()), `{"op":1,"d":null}`} {
			if ws.WriteMessage(websocket.TextMessage, []byte(m)) != nil {
				break // closed already
			}
		}
		for {
			_, raw, err := ws.ReadMessage()
			var p packet
			switch {
			case err == nil && json.Unmarshal(raw, &p) != nil:
				t.Fatalf("no JSON: %q", raw)
			case err == nil && p.Op == 11:
				return
			case err != nil && !websocket.IsCloseError(err, 4001, 4002, 4003, 4004, 4005, 4007, 4010, 4013):
				t.Fatalf("closed: %v", err)
			case err != nil:
				return
			}
		}
	})
}
