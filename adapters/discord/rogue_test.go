package discord_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"
	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	"hermesd/internal/sim/memnet"
)

// A rogue is a gateway that says what the real one should not: on its n-th
// connection what stands at n, and then nothing.
type rogue struct {
	script [][]string
	n      atomic.Int64
	end    context.Context
}

func (g *rogue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/gateway/bot"), strings.HasSuffix(r.URL.Path, "/gateway"):
		_, _ = io.WriteString(w, `{"url":"ws://gateway.test","session_start_limit":{"remaining":1000}}`) // a client that has gone notices itself
		return
	case !websocket.IsWebSocketUpgrade(r):
		http.NotFound(w, r)
		return
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	defer context.AfterFunc(g.end, func() { _ = ws.Close() })()
	n := int(g.n.Add(1)) - 1
	if n < len(g.script) {
		for _, s := range g.script[n] {
			if s == later {
				<-time.After(time.Second)
				continue
			}
			if ws.WriteMessage(websocket.TextMessage, []byte(s)) != nil {
				return
			}
		}
	}
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
	}
}

// later stands for a second. The library sleeps with a lock when a connection
// ends; until its first heartbeat has left, that would stop the clock of a bubble.
const later = "later"

// against runs an adapter against a rogue for a time.
func against(t *testing.T, d time.Duration, script ...[]string) (*adaptertest.Inbox, *discord.Adapter, *rogue) {
	end, stop := context.WithCancel(t.Context())
	g := &rogue{script: script, end: end}
	l := memnet.Listen("gateway.test:80")
	srv := &http.Server{Handler: g}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return l.Dial(ctx, network, address)
	}}
	a, err := discord.New(discord.Config{Token: "a.b.c", BaseURL: "http://gateway.test"}, discord.Options{Memory: newMemory(), Log: zap.NewNop(), Transport: tr, Dial: l.Dial})
	if err != nil {
		t.Fatal(err)
	}
	inbox := adaptertest.NewInbox(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := a.Run(ctx, inbox); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	stop()
	tr.CloseIdleConnections()
	_ = srv.Close()
	<-served
	return inbox, a, g
}

const (
	rogueHello = `{"op":10,"d":{"heartbeat_interval":40000}}`
	rogueReady = `{"op":0,"s":1,"t":"READY","d":{"v":9,"session_id":"abc","user":{"id":"9","username":"h"},"application":{"id":"8"},"guilds":[null]}}`
)

func say(n int, text string) string {
	return fmt.Sprintf(`{"op":0,"s":%d,"t":"MESSAGE_CREATE","d":{"id":"%d","channel_id":"20","type":0,"content":%q,"author":{"id":"5","username":"ann"}}}`, n, 1000+n, text)
}

// Each of these would end the process or lock the library up for good.
func TestARogueGatewayDoesNoHarm(t *testing.T) {
	for _, c := range []struct {
		name string
		odd  []string // what one connection says
	}{
		{"op 7 right after hello", []string{rogueHello, `{"op":7,"d":null}`}},
		{"op 11 right after hello", []string{rogueHello, `{"op":11}`}},
		{"op 9 right after hello", []string{rogueHello, `{"op":9,"d":false}`}},
		{"nothing after hello", []string{rogueHello}},
		{"no hello", nil},
		{"something else for hello", []string{rogueReady}},
		{"an interval of nothing", []string{`{"op":10,"d":{"heartbeat_interval":0}}`}},
		{"null", []string{rogueHello, rogueReady, `null`, later, `{"op":7}`}},
		{"a guild that is null", []string{rogueHello, rogueReady, `{"op":0,"s":2,"t":"GUILD_CREATE","d":null}`, later, `{"op":7}`}},
		{"channels that are null", []string{rogueHello, rogueReady, `{"op":0,"s":2,"t":"GUILD_CREATE","d":{"id":"1","channels":[null],"members":[null]}}`, later, `{"op":7}`}},
		{"a message of nobody", []string{rogueHello, rogueReady, `{"op":0,"s":2,"t":"MESSAGE_CREATE","d":{"id":"5","channel_id":"20"}}`, later, `{"op":7}`}},
		{"an interaction of nothing", []string{rogueHello, rogueReady, `{"op":0,"s":2,"t":"INTERACTION_CREATE","d":{"id":"5","channel_id":"20","type":3,"data":[]}}`, later, `{"op":7}`}},
		{"voice", []string{rogueHello, rogueReady, `{"op":0,"s":2,"t":"VOICE_SERVER_UPDATE","d":{"guild_id":"1"}}`, `{"op":0,"s":3,"t":"VOICE_STATE_UPDATE","d":{"guild_id":"1"}}`, later, `{"op":7}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inbox, a, g := against(t, 2*time.Minute, c.odd, []string{rogueHello, rogueReady, say(2, "hello")})
				var got []string
				for _, in := range inbox.Events() {
					if in.IgnoreRule == "" {
						got = append(got, in.Text)
					}
				}
				if len(got) != 1 || got[0] != "hello" || a.Health().State == chat.Failed {
					t.Errorf("taken in: %q; %d connections, %+v", got, g.n.Load(), a.Health())
				}
			})
		})
	}
}

// Two sessions of the library in one process share nothing, and its addresses
// stay what they were.
func TestTheLibrarysVariablesStayAsTheyAre(t *testing.T) {
	api, gateway := discordgo.EndpointAPI, discordgo.EndpointGateway
	synctest.Test(t, func(t *testing.T) {
		against(t, time.Minute, []string{rogueHello, rogueReady, say(2, "x")})
	})
	if discordgo.EndpointAPI != api || discordgo.EndpointGateway != gateway || api != "https://discord.com/api/v9/" {
		t.Errorf("%s %s", discordgo.EndpointAPI, discordgo.EndpointGateway)
	}
}
