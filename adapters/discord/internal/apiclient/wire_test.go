package apiclient_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "MTAw.GsimXY.secret-part"

// serve returns a client whose calls h answers, over connections in memory.
func serve(t *testing.T, base string, h http.HandlerFunc) *apiclient.Client {
	t.Helper()
	l := memnet.Listen("discord.test:80")
	srv := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	tr := &http.Transport{DialContext: l.Dial, DialTLSContext: l.Dial}
	t.Cleanup(func() { tr.CloseIdleConnections(); _ = srv.Close(); <-served })
	c, err := apiclient.New(token, base, tr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACallIsWhatDiscordExpects(t *testing.T) {
	for base, path := range map[string]string{
		apiclient.Origin: "/api/v9/channels/1/messages", "http://proxy.test/discord": "/discord/api/v9/channels/1/messages",
	} {
		var got *http.Request
		var body string
		c := serve(t, base, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got, body = r, string(b)
			_, _ = io.WriteString(w, `{"id":"5"}`)
		})
		var out struct{ ID string }
		err := c.Do(t.Context(), apiclient.Call{Method: "POST", Path: "channels/1/messages?limit=2", Body: map[string]int{"a": 1}}, &out)
		if err != nil || out.ID != "5" {
			t.Fatal(out, err)
		}
		if got.URL.Path != path || got.URL.RawQuery != "limit=2" || got.Header.Get("Authorization") != "Bot "+token || body != `{"a":1}` || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %s %v %s", base, got.Method, got.URL, got.Header, body)
		}
	}
}

func TestWhatIsKnownOfACallThatFailed(t *testing.T) {
	answer := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if k, v, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(k, v)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		want apiclient.Error
		has  string
	}{
		{"refused", answer(403, "", `{"message":"Missing Access","code":50001}`), apiclient.Error{Sent: true, API: true, Status: 403, Code: 50001}, "Missing Access"},
		{"a form", answer(400, "", `{"message":"Invalid Form Body","code":50035,"errors":{"Content":{"_errors": []}}}`), apiclient.Error{Sent: true, API: true, Status: 400, Code: 50035, Detail: `{"content":{"_errors":[]}}`}, "Invalid Form"},
		{"a rate", answer(429, "", `{"message":"slow","retry_after":0.65,"global":false}`), apiclient.Error{Sent: true, API: true, Status: 429, After: 650 * time.Millisecond}, "slow"},
		{"a rate without a number", answer(429, "Retry-After: 7", `{"message":"slow"}`), apiclient.Error{Sent: true, API: true, Status: 429, After: 7 * time.Second}, "slow"},
		{"a rate with an absurd number", answer(429, "", `{"message":"slow","retry_after":-1e300}`), apiclient.Error{Sent: true, API: true, Status: 429}, "slow"},
		{"a ban", answer(429, "Retry-After: 600", `<html>1015</html>`), apiclient.Error{Sent: true, Status: 429, After: 10 * time.Minute, Global: true}, "not from"},
		{"a ban without an end", answer(429, "", ``), apiclient.Error{Sent: true, Status: 429, After: time.Minute, Global: true}, "not from"},
		{"a bad gateway", answer(502, "", `{"message":"502: Bad Gateway","code":0}`), apiclient.Error{Sent: true, API: true, Status: 502}, "Bad Gateway"},
		{"a page", answer(504, "", `<html>`), apiclient.Error{Sent: true, Status: 504}, "not from"},
		{"another place", answer(302, "Location: http://evil.test/", ``), apiclient.Error{Sent: true, Status: 302}, "not from"},
		{"half of JSON", answer(200, "", `{"id":`), apiclient.Error{Sent: true, Status: 200}, "not from"},
		{"nothing", answer(200, "", ``), apiclient.Error{Sent: true, Status: 200}, "not from"},
		{"half an answer", answer(200, "Content-Length: 100", `{"id":"5"}`), apiclient.Error{Sent: true}, ""},
		{"cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, apiclient.Error{Sent: true}, ""},
	} {
		var out struct{ ID string }
		client := serve(t, "http://discord.test", c.h)
		err := client.Do(t.Context(), apiclient.Call{Method: "POST", Path: "webhooks/1/secret-part", Body: 1}, &out)
		var e *apiclient.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := apiclient.Error{Sent: e.Sent, Status: e.Status, API: e.API, Code: e.Code, After: e.After, Global: e.Global, Detail: e.Detail}
		if got != c.want || !strings.Contains(e.Error(), c.has) {
			t.Errorf("%s: %+v %q, want %+v", c.name, got, e.Error(), c.want)
		}
		if s := fmt.Sprintf("%v %+v", err, err); strings.Contains(s, "secret-part") {
			t.Errorf("%s: the error shows a secret: %s", c.name, s)
		}
	}
}

func TestACallThatNeverLeft(t *testing.T) {
	c, err := apiclient.New(token, "http://discord.test", &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no way")
	}})
	if err != nil {
		t.Fatal(err)
	}
	var e *apiclient.Error
	if err := c.Do(t.Context(), apiclient.Call{Method: "POST", Path: "x", Body: 1}, nil); !errors.As(err, &e) || e.Sent {
		t.Errorf("%+v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Do(ctx, apiclient.Call{Method: "POST", Path: "x", Body: 1}, nil); !errors.As(err, &e) || e.Sent || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v", err)
	}
	if err := c.Do(t.Context(), apiclient.Call{Method: "POST", Path: "x", Body: make(chan int)}, nil); !errors.As(err, &e) || e.Sent {
		t.Errorf("%+v", err)
	}
}

// A success stays one whatever its headers say: the library gives up on headers
// that it cannot read, before it has read the answer.
func TestHeadersDoNotMakeASuccessAFailure(t *testing.T) {
	c := serve(t, "http://discord.test", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "many")
		w.Header().Set("X-RateLimit-Reset-After", "soon")
		w.Header().Set("X-RateLimit-Reset", "never")
		_, _ = io.WriteString(w, `{"id":"5"}`)
	})
	var out struct{ ID string }
	if err := c.Do(t.Context(), apiclient.Call{Method: "GET", Path: "x", Bucket: "b"}, &out); err != nil || out.ID != "5" {
		t.Error(out, err)
	}
}

func TestAnEmptyBucketIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := serve(t, "http://discord.test", func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset-After", "1.25")
			w.WriteHeader(http.StatusNoContent)
		})
		do := func(bucket string) error {
			return c.Do(t.Context(), apiclient.Call{Method: "GET", Path: "x", Bucket: bucket}, nil)
		}
		if err := do("a"); err != nil {
			t.Fatal(err)
		}
		var e *apiclient.Error
		if err := do("a"); !errors.As(err, &e) || e.After != 1250*time.Millisecond || e.Status != 429 || e.Sent {
			t.Errorf("%+v", err)
		}
		if err := do("b"); err != nil {
			t.Error(err)
		}
		<-time.After(1250 * time.Millisecond)
		if err := do("a"); err != nil || calls != 3 {
			t.Errorf("%d calls, %v", calls, err)
		}
		for i := range 5000 { // and the memory of buckets has an end
			if err := do(fmt.Sprint("x", i)); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
	})
}

func TestUploads(t *testing.T) {
	var form, name, content string
	c := serve(t, "http://discord.test", func(w http.ResponseWriter, r *http.Request) {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil {
			t.Error(err)
			return
		}
		f, err := multipart.NewReader(r.Body, params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			t.Error(err)
			return
		}
		form, name = f.Value["payload_json"][0], f.File["files[0]"][0].Filename
		if file, err := f.File["files[0]"][0].Open(); err == nil {
			b, _ := io.ReadAll(file)
			content = string(b)
		}
		_, _ = io.WriteString(w, `{}`)
	})
	err := c.Do(t.Context(), apiclient.Call{
		Method: "POST", Path: "x", Body: map[string]string{"content": "é"},
		File: &apiclient.Upload{Name: "a.txt", Data: strings.NewReader("0123456789 and more"), Size: 10},
	}, nil)
	if err != nil || form != `{"content":"é"}` || name != "a.txt" || content != "0123456789" {
		t.Errorf("%q %q %q %v", form, name, content, err)
	}
	// A file that has become shorter breaks the call off.
	err = c.Do(t.Context(), apiclient.Call{Method: "POST", Path: "x", Body: 1, File: &apiclient.Upload{Name: "a", Data: strings.NewReader("0123"), Size: 10}}, nil)
	if err == nil {
		t.Error("half a file went out")
	}
}

// proxy is an HTTP proxy on the loopback that leads everything to an echo.
func proxy(t *testing.T, status string) (address string, asked *string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		*asked = r.Method + " " + r.Host + " " + r.Header.Get("Proxy-Authorization")
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\n\r\n")
		_, _ = io.Copy(c, c)
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), asked
}

func TestTheGatewayIsReachedThroughAProxy(t *testing.T) {
	address, asked := proxy(t, "200 OK")
	dial, err := apiclient.Through(secret.Value("http://me:pw@" + address))
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), "tcp", "gateway.discord.gg:443")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "echo"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "echo" || *asked != "CONNECT gateway.discord.gg:443 Basic bWU6cHc=" {
		t.Errorf("%q %q %v", b, *asked, err)
	}
	_ = c.Close()
}

func TestAProxyThatRefuses(t *testing.T) {
	address, _ := proxy(t, "407 Proxy Authentication Required")
	dial, err := apiclient.Through(secret.Value("http://" + address))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := dial(t.Context(), "tcp", "gateway.discord.gg:443"); err == nil || !strings.Contains(err.Error(), "407") {
		t.Errorf("%v %v", c, err)
	}
}

// The library's session ends its calls with the context that it was made with.
func TestCallsOfASessionEndWithIt(t *testing.T) {
	stop := make(chan struct{})
	c := serve(t, "http://discord.test", func(http.ResponseWriter, *http.Request) { <-stop })
	defer close(stop)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := c.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Gateway(); err == nil {
		t.Error("it was answered")
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(429, []byte(`{"message":"m","retry_after":1e999,"errors":[1,{}]}`))
	f.Add(200, []byte(`{"id":5}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		c, err := apiclient.New(token, "http://discord.test", answers{status, body})
		if err != nil {
			t.Fatal(err)
		}
		var out struct{ ID string }
		err = c.Do(t.Context(), apiclient.Call{Method: "GET", Path: "x", Bucket: "b"}, &out)
		var e *apiclient.Error
		if err != nil && !errors.As(err, &e) || e != nil && (e.After < 0 || e.Error() == "") {
			t.Errorf("%+v", err)
		}
		if ok := status >= 200 && status < 300 && json.Valid(body); ok && err != nil {
			t.Errorf("%d %q: %v", status, body, err)
		}
	})
}

// answers is a transport with one answer.
type answers struct {
	status int
	body   []byte
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a.body))), Request: r}, nil
}
