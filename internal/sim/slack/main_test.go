package slack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"hermesd/internal/sim/slack"
)

// slacktest leaks a goroutine for each message that is not read.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/slack-go/slack/slacktest.(*Server).queueForWebsocket"))
}

// An answer is an answer of the Web API.
type answer struct {
	Status     int             `json:"-"`
	Header     http.Header     `json:"-"`
	Raw        map[string]any  `json:"-"`
	OK         bool            `json:"ok"`
	Error      string          `json:"error"`
	Needed     string          `json:"needed"`
	Provided   string          `json:"provided"`
	Warning    string          `json:"warning"`
	Channel    json.RawMessage `json:"channel"`
	TS         string          `json:"ts"`
	Messages   []message       `json:"messages"`
	HasMore    bool            `json:"has_more"`
	UploadURL  string          `json:"upload_url"`
	FileID     string          `json:"file_id"`
	ConnectURL string          `json:"url"`
	Meta       struct {
		Messages []string `json:"messages"`
		Next     string   `json:"next_cursor"`
	} `json:"response_metadata"`
}

type message struct {
	Type, Subtype, Text, User, TS string
	Thread                        string          `json:"thread_ts"`
	Replies                       int             `json:"reply_count"`
	Metadata                      json.RawMessage `json:"metadata"`
}

// A place is a server in memory with one workspace, one app, one person, a
// channel and the person's direct message.
type place struct {
	*slack.Server
	team *slack.Team
	app  *slack.App
	bot  *slack.Bot
	ann  *slack.User
	room *slack.Channel
	dm   *slack.Channel
	web  *http.Client
}

func newPlace(t *testing.T, o slack.Options, a slack.AppOptions) *place {
	t.Helper()
	p := &place{Server: slack.New(o)}
	t.Cleanup(p.Close)
	p.team = p.AddTeam("Acme")
	p.app = p.AddApp(a)
	p.bot = p.app.Install(p.team)
	p.ann = p.team.AddUser(slack.Person{Name: "ann", RealName: "Ann Example", Email: "ann@example.org"})
	p.room = p.team.AddChannel(slack.ChannelOptions{Name: "general", Members: []*slack.User{p.ann, p.bot.User()}})
	p.dm = p.ann.DM(p.bot)
	p.web = p.Client()
	t.Cleanup(p.web.CloseIdleConnections)
	return p
}

// call posts pairs of names and values as a form, with the bot token.
func (p *place) call(t *testing.T, method string, pairs ...string) answer {
	t.Helper()
	return p.callAs(t, p.bot.Token(), method, pairs...)
}

func (p *place) callAs(t *testing.T, token, method string, pairs ...string) answer {
	t.Helper()
	a, err := p.try(t.Context(), token, method, pairs...)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return a
}

func (p *place) try(ctx context.Context, token, method string, pairs ...string) (answer, error) {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return p.post(ctx, token, p.APIURL()+method, "application/x-www-form-urlencoded", form.Encode())
}

func (p *place) post(ctx context.Context, token, address, kind, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := p.web.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Status: resp.StatusCode, Header: resp.Header}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("no JSON: %q: %w", raw, err)
	}
	return a, json.Unmarshal(raw, &a.Raw)
}

// post1 posts a text that must be accepted and returns its ts.
func (p *place) post1(t *testing.T, ch *slack.Channel, text string, pairs ...string) string {
	t.Helper()
	a := p.call(t, "chat.postMessage", append(pairs, "channel", ch.ID(), "text", text)...)
	mustOK(t, a)
	return a.TS
}

// A frame is a frame of a socket.
type frame struct {
	Type     string `json:"type"`
	Envelope string `json:"envelope_id"`
	Attempt  int    `json:"retry_attempt"`
	Why      string `json:"retry_reason"`
	Accepts  bool   `json:"accepts_response_payload"`
	Reason   string `json:"reason"`
	Links    int    `json:"num_connections"`
	Debug    struct {
		Life int `json:"approximate_connection_time"`
	} `json:"debug_info"`
	Payload struct {
		EventID     string          `json:"event_id"`
		Type        string          `json:"type"`
		Event       json.RawMessage `json:"event"`
		Command     string          `json:"command"`
		Text        string          `json:"text"`
		ResponseURL string          `json:"response_url"`
	} `json:"payload"`
	Raw string
}

// A link is a socket that uses no Slack library and acknowledges nothing by
// itself.
type link struct {
	t     *testing.T
	conn  *websocket.Conn
	in    chan frame
	done  chan struct{}
	pings atomic.Int32
}

// open opens a socket of the app and reads its hello.
func (p *place) open(t *testing.T) *link {
	t.Helper()
	k := p.dial(t, p.ticket(t))
	if hello := k.next(); hello.Type != "hello" {
		t.Fatalf("first frame: %+v", hello)
	}
	return k
}

func (p *place) ticket(t *testing.T) string {
	t.Helper()
	a := p.callAs(t, p.app.Token(), "apps.connections.open")
	mustOK(t, a)
	return a.ConnectURL
}

func (p *place) dial(t *testing.T, address string) *link {
	t.Helper()
	conn, resp, err := p.Dialer().DialContext(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	k := &link{t: t, conn: conn, in: make(chan frame, 100), done: make(chan struct{})}
	pong := conn.PingHandler()
	conn.SetPingHandler(func(said string) error {
		k.pings.Add(1)
		return pong(said)
	})
	go func() { // close waits for it
		defer close(k.done)
		defer close(k.in)
		for {
			_, raw, err := conn.ReadMessage()
			if err != nil {
				return
			}
			f := frame{Raw: string(raw)}
			_ = json.Unmarshal(raw, &f) // some frames are spoiled
			k.in <- f
		}
	}()
	t.Cleanup(k.close)
	return k
}

func (k *link) close() {
	_ = k.conn.Close()
	<-k.done
}

// next returns the next frame; the zero frame when the socket has closed.
func (k *link) next() frame {
	k.t.Helper()
	select {
	case f := <-k.in:
		return f
	case <-time.After(10 * time.Minute): // in a bubble
		k.t.Fatal("no frame")
		return frame{}
	}
}

// quiet checks that no frame arrives within d.
func (k *link) quiet(d time.Duration) {
	k.t.Helper()
	select {
	case f, ok := <-k.in:
		k.t.Errorf("unexpected frame (%v): %s", ok, f.Raw)
	case <-time.After(d):
	}
}

func (k *link) ack(f frame) {
	k.t.Helper()
	if err := k.conn.WriteJSON(map[string]string{"envelope_id": f.Envelope}); err != nil {
		k.t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustOK(t *testing.T, a answer) {
	t.Helper()
	if !a.OK || a.Status != http.StatusOK {
		t.Fatalf("refused: %+v", a)
	}
}

func mustRefuse(t *testing.T, a answer, code string) {
	t.Helper()
	if a.OK || a.Error != code {
		t.Errorf("got ok %v, error %q, want %q", a.OK, a.Error, code)
	}
}

func texts(list []slack.Message) string {
	var out []string
	for _, m := range list {
		out = append(out, m.Shown())
	}
	return strings.Join(out, "|")
}

func keys(m map[string]any) string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
