package discord_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"pgregory.net/rapid"

	"hermesd/internal/sim/discord"
)

// A packet is a payload from the gateway.
type packet struct {
	Op   int             `json:"op"`
	Seq  int             `json:"s"`
	Type string          `json:"t"`
	Data json.RawMessage `json:"d"`
}

// A socket is a gateway client that uses no Discord library.
type socket struct {
	t  *testing.T
	ws *websocket.Conn
	p  *place
}

func (p *place) socket(t *testing.T) *socket {
	t.Helper()
	ws, resp, err := discord.Websocket(p.Dial).DialContext(t.Context(), "wss://gateway.discord.gg/?v=10&encoding=json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = ws.Close() })
	s := &socket{t, ws, p}
	want(t, "hello", s.next().Op, 10)
	return s
}

// send sends a payload; data is JSON.
func (s *socket) send(op int, data string) {
	s.t.Helper()
	s.raw(fmt.Sprintf(`{"op":%d,"d":%s}`, op, data))
}

func (s *socket) raw(text string) {
	s.t.Helper()
	if err := s.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) next() packet {
	s.t.Helper()
	var p packet
	if err := s.ws.ReadJSON(&p); err != nil {
		s.t.Fatalf("read: %v", err)
	}
	return p
}

// end returns the code with which the server closes, 0 if it cuts, -1 if
// nothing arrives for a day.
func (s *socket) end() int {
	s.t.Helper()
	_ = s.ws.SetReadDeadline(time.Now().Add(24 * time.Hour))
	for {
		_, _, err := s.ws.ReadMessage()
		var closed *websocket.CloseError
		var late net.Error
		switch {
		case err == nil:
		case errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
			return closed.Code
		case errors.As(err, &late) && late.Timeout():
			return -1
		default:
			return 0
		}
	}
}

const all = discord.IntentGuilds | discord.IntentGuildMessages | discord.IntentDirectMessages | discord.IntentMessageContent

func (s *socket) identify(intents discord.Intent) {
	s.t.Helper()
	s.send(2, fmt.Sprintf(`{"token":%q,"intents":%d,"properties":{}}`, s.p.bot.Token(), intents))
}

// ready identifies and returns the session ID after the guild has arrived too.
func (s *socket) ready(intents discord.Intent) string {
	s.t.Helper()
	s.identify(intents)
	var r struct {
		ID string `json:"session_id"`
	}
	p := s.next()
	want(s.t, "first event", p.Type, "READY")
	if err := json.Unmarshal(p.Data, &r); err != nil {
		s.t.Fatal(err)
	}
	if intents&discord.IntentGuilds != 0 {
		want(s.t, "second event", s.next().Type, "GUILD_CREATE")
	}
	return r.ID
}

func (s *socket) resume(session string, seq int) {
	s.t.Helper()
	s.send(6, fmt.Sprintf(`{"token":%q,"session_id":%q,"seq":%d}`, s.p.bot.Token(), session, seq))
}

// text returns the content of a message event.
func (p packet) text() string {
	var m struct {
		Content string `json:"content"`
	}
	_ = json.Unmarshal(p.Data, &m)
	return fmt.Sprintf("%d %s %s", p.Seq, p.Type, m.Content)
}

func bubble(t *testing.T, o discord.Options, test func(t *testing.T, p *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newPlace(t, o)) })
}

func TestWhatTheGatewayClosesWith(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(s *socket)
		want int
	}{
		{"unknown opcode", func(s *socket) { s.send(77, "1") }, discord.CloseUnknownOpcode},
		{"no JSON", func(s *socket) { s.raw("{") }, discord.CloseDecodeError},
		{"too large", func(s *socket) { s.send(1, `"`+strings.Repeat("x", 5000)+`"`) }, discord.CloseDecodeError},
		{"not identified", func(s *socket) { s.send(3, "{}") }, discord.CloseNotAuthenticated},
		{"bad token", func(s *socket) { s.send(2, `{"token":"x","intents":1}`) }, discord.CloseBadToken},
		{"no intents", func(s *socket) { s.send(2, `{"token":"`+s.p.bot.Token()+`"}`) }, discord.CloseInvalidIntents},
		{"wild intents", func(s *socket) { s.identify(1 << 30) }, discord.CloseInvalidIntents},
		{"twice", func(s *socket) { s.ready(all); s.identify(all) }, discord.CloseAlreadyIdentified},
		{"wrong shard", func(s *socket) { s.send(2, `{"token":"`+s.p.bot.Token()+`","intents":1,"shard":[2,2]}`) }, discord.CloseInvalidShard},
		{"future heartbeat", func(s *socket) { s.ready(all); s.send(1, "99") }, discord.CloseInvalidSeq},
		{"silence", func(s *socket) { s.ready(all) }, discord.CloseSessionTimedOut},
		{"chatter", func(s *socket) {
			for range 121 {
				s.send(1, "null")
			}
		}, discord.CloseRateLimited},
		{"resume with bad token", func(s *socket) { s.send(6, `{"token":"x","session_id":"1","seq":1}`) }, discord.CloseBadToken},
		{"cut", func(s *socket) { s.ready(all); s.p.CutAll(s.p.bot) }, 0},
		{"black hole", func(s *socket) { s.ready(all); s.p.Swallow(s.p.bot) }, -1},
		{"down", func(s *socket) { s.ready(all); s.p.Down() }, 0},
		{"on demand", func(s *socket) { s.p.CloseAll(discord.CloseUnknownError) }, discord.CloseUnknownError},
		{"new token", func(s *socket) { s.ready(all); s.p.bot.ResetToken() }, discord.CloseBadToken},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, discord.Options{}, func(t *testing.T, p *place) {
				s := p.socket(t)
				c.send(s)
				want(t, "close code", s.end(), c.want)
				if c.want > 0 {
					want(t, "in the record", p.Recorder().Counts().Closes[c.want], 1)
				}
			})
		})
	}
	bubble(t, discord.Options{}, func(t *testing.T, p *place) {
		p.bot = p.AddBot(discord.BotOptions{Denied: discord.IntentMessageContent})
		s := p.socket(t)
		s.identify(all)
		want(t, "content is switched off", s.end(), discord.CloseDisallowedIntents)
		s = p.socket(t)
		s.identify(all &^ discord.IntentMessageContent)
		want(t, "without it", s.next().Type, "READY")
	})
}

func TestAResumeGivesWhatWasMissed(t *testing.T) {
	bubble(t, discord.Options{}, func(t *testing.T, p *place) {
		s := p.socket(t)
		id := s.ready(all)
		p.ch.Say(p.ann, "one")
		want(t, "live", s.next().text(), "3 MESSAGE_CREATE one")
		p.CutAll()
		p.ch.Say(p.ann, "two")
		p.ch.Say(p.ann, "three")
		s = p.socket(t)
		s.resume(id, 2)
		for _, expect := range []string{"3 MESSAGE_CREATE one", "4 MESSAGE_CREATE two", "5 MESSAGE_CREATE three", "6 RESUMED "} {
			want(t, "again", s.next().text(), expect)
		}
		offers := p.Recorder().Offers("MESSAGE_CREATE")
		want(t, "deliveries of the first", offers[0].Times, 2)
		want(t, "not acknowledged", len(p.Recorder().Unacked("MESSAGE_CREATE")), 3)
		s.send(1, "4")
		want(t, "ack", s.next().Op, 11)
		want(t, "not acknowledged after the heartbeat", len(p.Recorder().Unacked("MESSAGE_CREATE")), 1)
		// The newer connection takes over the session; the older one is closed.
		other := p.socket(t)
		other.resume(id, 6)
		want(t, "taken over", other.next().text(), "7 RESUMED ")
		want(t, "older connection", s.end(), discord.CloseUnknownError)
		want(t, "not acknowledged after the resume", len(p.Recorder().Unacked("MESSAGE_CREATE")), 0)
	})
}

func TestWhenASessionCannotBeResumed(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(p *place, s *socket)
		seq    int
	}{
		{"too late", func(p *place, _ *socket) { p.CutAll(); <-time.After(4 * time.Minute) }, 2},
		{"too far back", func(p *place, _ *socket) {
			p.CutAll()
			for range 9 {
				p.ch.Say(p.ann, "x")
			}
		}, 2},
		{"forgotten", func(p *place, _ *socket) { p.CutAll(); p.ForgetSessions() }, 2},
		{"closed by the client", func(_ *place, s *socket) {
			_ = s.ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
			_ = s.ws.Close()
			synctest.Wait()
		}, 2},
		{"invalidated", func(p *place, s *socket) {
			p.Invalidate(false)
			got := s.next()
			want(s.t, "invalid session", fmt.Sprint(got.Op, " ", string(got.Data)), "9 false")
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, discord.Options{ReplayBuffer: 5}, func(t *testing.T, p *place) {
				s := p.socket(t)
				id := s.ready(all)
				c.before(p, s)
				s = p.socket(t)
				s.resume(id, c.seq)
				got := s.next()
				want(t, "answer", fmt.Sprint(got.Op, " ", string(got.Data)), "9 false")
				s.ready(all) // on the same connection
				p.ch.Say(p.ann, "new")
				want(t, "then", s.next().text(), "3 MESSAGE_CREATE new")
			})
		})
	}
}

func TestTheServerMayAskForAReconnect(t *testing.T) {
	bubble(t, discord.Options{}, func(t *testing.T, p *place) {
		s := p.socket(t)
		id := s.ready(all)
		p.RequestHeartbeat()
		want(t, "heartbeat wanted", s.next().Op, 1)
		p.Invalidate(true)
		got := s.next()
		want(t, "invalid, but resumable", fmt.Sprint(got.Op, " ", string(got.Data)), "9 true")
		s.resume(id, 2)
		want(t, "resumed", s.next().Type, "RESUMED")
		p.Reconnect()
		want(t, "reconnect wanted", s.next().Op, 7)
		_ = s.ws.Close()
		synctest.Wait()
		p.ch.Say(p.ann, "meanwhile")
		s = p.socket(t)
		s.resume(id, 3)
		want(t, "missed", s.next().text(), "4 MESSAGE_CREATE meanwhile")
	})
}

func TestABlackHoleCarriesNothingAndLosesNothing(t *testing.T) {
	bubble(t, discord.Options{}, func(t *testing.T, p *place) {
		s := p.socket(t)
		id := s.ready(all)
		p.Swallow()
		p.ch.Say(p.ann, "lost on the way")
		s.send(1, "2")
		want(t, "no answer to a heartbeat", s.end(), -1)
		n := p.Recorder().Counts()
		want(t, "nothing arrived", fmt.Sprint(n.Heartbeats, len(p.Recorder().Unacked("MESSAGE_CREATE"))), "0 1")
		want(t, "too late for a resume", p.bot.Sessions(), 0)
		_ = id
	})
}

func TestEverySessionHearsWhatItAskedFor(t *testing.T) {
	bubble(t, discord.Options{}, func(t *testing.T, p *place) {
		deaf, plain, full := p.socket(t), p.socket(t), p.socket(t)
		deaf.ready(discord.IntentGuilds)
		plain.ready(discord.IntentGuildMessages)
		full.ready(all)
		p.ch.Say(p.ann, "in the guild")
		p.ch.Say(p.ann, p.bot.User().Mention()+" you")
		p.ann.DM(p.bot).Say(p.ann, "in private")
		p.home.AddChannel(discord.ChannelOptions{Name: "new"})
		for _, c := range []struct {
			s    *socket
			want string
		}{
			{deaf, "3 CHANNEL_CREATE "},
			{plain, "2 MESSAGE_CREATE "},
			{plain, "3 MESSAGE_CREATE " + p.bot.User().Mention() + " you"},
			{full, "3 MESSAGE_CREATE in the guild"},
			{full, "4 MESSAGE_CREATE " + p.bot.User().Mention() + " you"},
			{full, "5 MESSAGE_CREATE in private"},
			{full, "6 CHANNEL_CREATE "},
		} {
			want(t, "event", c.s.next().text(), c.want)
		}
	})
}

func TestANonceIsToldToItsSender(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		s := w.socket(t)
		s.ready(all)
		dm := w.ann.DM(w.bot)
		for _, ch := range []*discord.Channel{w.ch, dm} {
			want(t, "sent", w.do(t, "POST", "/channels/"+ch.ID()+"/messages", `{"content":"x","nonce":"n-`+ch.ID()+`"}`).Status, 200)
			if m := s.next(); !strings.Contains(string(m.Data), "n-"+ch.ID()) {
				t.Errorf("event without nonce: %s", m.Data)
			}
		}
	})
}

func TestIdentifiesAreCounted(t *testing.T) {
	bubble(t, discord.Options{IdentifyEvery: 5 * time.Second}, func(t *testing.T, p *place) {
		w := newWeb(t, p)
		p.socket(t).ready(all)
		second := p.socket(t)
		second.identify(all)
		want(t, "too soon", second.next().Op, 9)
		<-time.After(5 * time.Second)
		second.ready(all)
		left := func() string {
			var r struct {
				Limit struct {
					Remaining int `json:"remaining"`
				} `json:"session_start_limit"`
			}
			_ = json.Unmarshal([]byte(w.do(t, "GET", "/gateway/bot", "").Raw), &r)
			return fmt.Sprint(r.Limit.Remaining)
		}
		want(t, "left", left(), "997")
		p.bot.SetSessionStarts(0, time.Hour)
		want(t, "left", left(), "0")
		third := p.socket(t)
		third.identify(all)
		want(t, "one too many", third.end(), discord.CloseBadToken)
		want(t, "token taken away", w.do(t, "GET", "/users/@me", "").Status, 401)
	})
}

func TestTheServerComesBack(t *testing.T) {
	p := newPlace(t, discord.Options{})
	if _, err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.Down()
	for _, dial := range []discord.Dialer{p.Dial, p.DialLoopback} {
		if c, err := dial(t.Context(), "tcp", "x:1"); err == nil {
			t.Errorf("a server that is away was reached: %v", c.LocalAddr())
		}
	}
	if err := p.Up(); err != nil {
		t.Fatal(err)
	}
	for _, dial := range []discord.Dialer{p.Dial, p.DialLoopback} {
		c, err := dial(t.Context(), "tcp", "x:1")
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
}

// A client that resumes after every cut receives every message once, in order.
func TestNoCutLosesOrDoublesAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"say", "say", "read", "cut", "reconnect", "resume older"}), 1, 40).Draw(rt, "steps")
		bubble(t, discord.Options{}, func(t *testing.T, p *place) {
			s := p.socket(t)
			session, seq, said := s.ready(all), 2, 0
			var heard []string
			read := func() bool {
				m := s.next()
				if m.Seq > seq && m.Type == "MESSAGE_CREATE" {
					heard = append(heard, m.text()[strings.LastIndex(m.text(), " ")+1:])
				}
				seq = max(seq, m.Seq)
				return m.Type == "RESUMED"
			}
			resume := func(from int) {
				s = p.socket(t)
				s.resume(session, from)
				for !read() {
				}
			}
			for _, step := range steps {
				switch step {
				case "say":
					p.ch.Say(p.ann, fmt.Sprint(said))
					said++
				case "read":
					if len(heard) < said {
						read()
					}
				case "cut":
					p.CutAll()
					resume(seq)
				case "reconnect":
					_ = s.ws.Close()
					resume(seq)
				case "resume older":
					p.CutAll()
					resume(max(0, seq-3))
				}
			}
			for len(heard) < said {
				read()
			}
			for i, text := range heard {
				if text != fmt.Sprint(i) {
					t.Fatalf("%v: heard %v", steps, heard)
				}
			}
			want(t, "heard", len(heard), said)
		})
	})
}
