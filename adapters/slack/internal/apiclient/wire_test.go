package apiclient_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/adapters/internal/transport"
	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a transport that answers as it is told.
type script func(*http.Request) (*http.Response, error)

func (s script) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

func answer(status int, header, body string) script {
	return func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		if k, v, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		_, err := io.WriteString(w, body)
		return w.Result(), err
	}
}

const base = "https://slack.test/api/"

func call(t *testing.T, rt http.RoundTripper, url string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("token=xoxb-1"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&apiclient.Client{RT: rt, Base: base, Hidden: []secret.Value{"xoxb-1", ""}}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func TestAnswersOfTheWebAPI(t *testing.T) {
	for _, c := range []struct {
		name, method, header, body string
		status, want               int
		text                       string
	}{
		{"as it is", "auth.test", "", `{"ok":true,"x":1}`, 200, 200, `{"ok":true,"x":1}`},
		{"a refusal", "auth.test", "", `{"ok":false,"error":"x"}`, 200, 200, `{"ok":false,"error":"x"}`},
		{"a refusal with a status of its own", "auth.test", "", `{"ok":false,"error":"x"}`, 503, 200, `{"ok":false,"error":"x"}`},
		{"a sent message is its ts", "chat.postMessage", "", `{"ok":true,"channel":"C1","ts":"1.2","message":{"blocks":[{"type":7}]}}`, 200, 200, `{"ok":true,"channel":"C1","ts":"1.2","response_metadata":{}}`},
		{"why it was not sent stays", "chat.postMessage", "", `{"ok":false,"error":"missing_scope","needed":"chat:write"}`, 200, 200, `{"ok":false,"error":"missing_scope","needed":"chat:write","response_metadata":{}}`},
		{"a flood", "chat.postMessage", "Retry-After: 7", `x`, 429, 429, `x`},
	} {
		resp, body, err := call(t, answer(c.status, c.header, c.body), base+c.method+"?x=1")
		if err != nil || resp.StatusCode != c.want || body != c.text {
			t.Errorf("%s: %v %v %q", c.name, err, resp, body)
		}
	}
}

func TestAnswersOfOthers(t *testing.T) {
	for name, rt := range map[string]script{
		"a page":                     answer(200, "", "<html>"),
		"a proxy's page":             answer(502, "", "<html>"),
		"JSON of somebody else":      answer(200, "", `{"error":"x"}`),
		"a flood without a time":     answer(429, "", `x`),
		"a flood until a date":       answer(429, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", `{"ok":false}`),
		"a redirect is not followed": answer(302, "Location: https://evil.test/", ""),
	} {
		_, _, err := call(t, rt, base+"auth.test")
		var we *apiclient.Error
		if !errors.As(err, &we) || !we.Sent || we.Status == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestItIsKnownWhetherARequestLeft(t *testing.T) {
	refused := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused with xoxb-1")
	}}
	cut := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := memnet.Conns("x")
		return near, far.Close()
	}}
	for name, c := range map[string]struct {
		rt   http.RoundTripper
		sent bool
	}{"refused": {refused, false}, "cut": {cut, true}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://slack.test/api/x", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&apiclient.Client{RT: c.rt, Base: "http://slack.test/api/", Hidden: []secret.Value{"xoxb-1"}}).Do(req) //nolint:bodyclose // there is none
		var we *apiclient.Error
		if !errors.As(err, &we) || we.Sent != c.sent || strings.Contains(err.Error(), "xoxb-1") {
			t.Errorf("%s: %v, sent %v", name, err, we != nil && we.Sent)
		}
	}
}

func TestProxies(t *testing.T) {
	proxy, err := transport.Proxy("http://proxy.test:3128")
	if err != nil {
		t.Fatal(err)
	}
	d := apiclient.SocketOptions{Proxy: proxy, Alive: func() {}}.Dialer()
	if d.Proxy == nil || d.NetDialTLSContext != nil {
		t.Error("a socket does not go through the proxy")
	}
	if d := (apiclient.SocketOptions{Alive: func() {}}).Dialer(); d.Proxy != nil || d.NetDialTLSContext == nil {
		t.Error("a socket without a proxy is not seen into")
	}
}

// A feed is a connection from which comes what it is given, in pieces.
type feed struct {
	net.Conn
	r io.Reader
}

func (f feed) Read(p []byte) (int, error) { return f.r.Read(p) }

// through returns what passes of raw, and the reasons for which to leave.
func through(t interface{ Fatal(...any) }, r io.Reader) (passed []byte, leave []string, alive int) {
	d := apiclient.SocketOptions{
		Socket:       func(context.Context, string, string) (net.Conn, error) { return feed{r: r}, nil },
		Alive:        func() { alive++ },
		OnDisconnect: func(reason string) { leave = append(leave, reason) },
	}.Dialer()
	c, err := d.NetDialContext(context.Background(), "tcp", "x")
	if err != nil {
		t.Fatal(err)
	}
	passed, err = io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return passed, leave, alive
}

// frame is a message of a server.
func frame(first byte, payload string) []byte {
	out := []byte{first}
	switch n := len(payload); {
	case n < 126:
		out = append(out, byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 127), uint64(n))
	}
	return append(out, payload...)
}

const (
	greeting = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
	bye      = `{"type":"disconnect","reason":"refresh_requested","debug_info":{"host":"h"}}`
)

func TestOnlyTheWishToLeaveIsHeldBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, want, byes := []byte(greeting), []byte(greeting), 0
		for range rapid.IntRange(0, 12).Draw(t, "frames") {
			f := rapid.SampledFrom([][]byte{
				frame(0x81, `{"type":"hello"}`), frame(0x81, strings.Repeat("x", 200)), frame(0x81, strings.Repeat("x", 70_000)),
				frame(0x89, "ping"), frame(0x01, bye), frame(0x80, bye), frame(0x82, bye), frame(0x81, ""), frame(0x88, ""),
				frame(0x81, `{"type":"events_api","payload":`+bye+`}`), frame(0x81, bye+" "+strings.Repeat(" ", 9000)), frame(0x81, "{"+bye),
			}).Draw(t, "frame")
			raw, want = append(raw, f...), append(want, f...)
			if rapid.Bool().Draw(t, "bye") {
				raw = append(raw, frame(0x81, bye)...)
				byes++
			}
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 5).Draw(t, "sizes")
		passed, leave, alive := through(t, &pieces{raw: bytes.Clone(raw), sizes: sizes})
		if !bytes.Equal(passed, want) || len(leave) != byes || alive == 0 {
			t.Fatalf("%d of %d bytes passed, %d of %d wishes heard", len(passed), len(want), len(leave), byes)
		}
	})
}

// pieces gives what it has in pieces of some sizes, in turn.
type pieces struct {
	raw   []byte
	sizes []int
	n     int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.raw) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.raw[:min(len(p.raw), p.sizes[p.n%len(p.sizes)])])
	p.raw, p.n = p.raw[n:], p.n+1
	return n, nil
}

func TestWhatBreaksOffPassesAsItIs(t *testing.T) {
	for _, raw := range []string{"", "HTTP/1.1 403 Forbidden\r\n", greeting + "\x81", greeting + "\x81\x7e\x00", greeting + string(frame(0x81, bye))[:40]} {
		passed, leave, _ := through(t, strings.NewReader(raw))
		if string(passed) != raw || leave != nil {
			t.Errorf("%q passed as %q, %v", raw, passed, leave)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(greeting + string(frame(0x81, bye)) + string(frame(0x89, "p"))))
	f.Add([]byte(greeting + "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		passed, leave, _ := through(t, bytes.NewReader(raw))
		if len(leave) == 0 && !bytes.Equal(passed, raw) {
			t.Errorf("%q became %q", raw, passed)
		}
		if len(passed) > len(raw) {
			t.Errorf("%q grew to %q", raw, passed)
		}
	})
}

func TestASocketOfARealServer(t *testing.T) {
	l := memnet.Listen("slack.test")
	defer func() { _ = l.Close() }()
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		for _, m := range []string{`{"type":"hello"}`, bye, `{"n":1}`} {
			if c.WriteMessage(websocket.TextMessage, []byte(m)) != nil {
				return
			}
		}
		_, _, _ = c.ReadMessage() // until the client has gone
		_ = c.Close()
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }() // awaited below
	var left []string
	d := apiclient.SocketOptions{Socket: l.Dial, Alive: func() {}, OnDisconnect: func(s string) { left = append(left, s) }}.Dialer()
	c, resp, err := d.DialContext(t.Context(), "wss://slack.test/link", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	var got []string
	for range 2 {
		_, m, err := c.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(m))
	}
	if !slices.Equal(got, []string{`{"type":"hello"}`, `{"n":1}`}) || !slices.Equal(left, []string{"refresh_requested"}) {
		t.Errorf("%q, left for %q", got, left)
	}
	_ = c.Close()
	_ = srv.Close()
	<-done
}
