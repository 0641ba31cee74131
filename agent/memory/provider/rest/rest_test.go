package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-0123456789abcdef"

// serve returns a server of an API and a client of it.
func serve(t *testing.T, api http.HandlerFunc) (*memory.Server, *rest.Client) {
	t.Helper()
	s := memory.New(api, func(_ int, message string) any { return map[string]any{"detail": message} })
	t.Cleanup(s.Close)
	c, err := rest.New("Sim", s.URL+"/", secret.Value(key), provider.Source{Secrets: new(secret.Masker), HTTP: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	c.Header = func() http.Header { return http.Header{"Authorization": {"Bearer " + key}} }
	t.Cleanup(c.Close)
	return s, c
}

func ok(w http.ResponseWriter, _ *http.Request) {
	memory.JSON(w, http.StatusOK, map[string]any{"n": 1})
}

type number struct{ N int }

// failed returns err as an error of a provider, which it must be.
func failed(t *testing.T, err error) *provider.Error {
	t.Helper()
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		t.Fatalf("%v is a %T", err, err)
	}
	if strings.Contains(fmt.Sprintf("%v %#v", e, e.Err), key) {
		t.Errorf("the key is in %v, %#v", e, e.Err)
	}
	return e
}

func TestCall(t *testing.T) {
	s, c := serve(t, ok)
	var got number
	err := c.Do(t.Context(), rest.Call{
		Method: "PUT", Path: "/v1/a%2Fb", Query: url.Values{"q": {"x y"}}, Body: map[string]int{"n": 2}, Header: http.Header{"X-Own": {"1"}},
	}, &got)
	if err != nil || got.N != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	call := s.Calls()[0]
	if call.Method != "PUT" || call.Path != "/v1/a/b" || call.Query.Get("q") != "x y" || string(call.Body) != `{"n":2}` || call.Key != key {
		t.Errorf("sent %+v", call)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Accept": "application/json", "X-Own": "1"} {
		if call.Header.Get(name) != want {
			t.Errorf("%s: %q", name, call.Header.Get(name))
		}
	}
	if err := c.Do(t.Context(), rest.Call{Method: "POST", Path: "/f", Raw: []byte("a=1"), ContentType: "text/x"}, nil); err != nil {
		t.Error(err)
	}
	if call := s.Calls()[1]; string(call.Body) != "a=1" || call.Header.Get("Content-Type") != "text/x" {
		t.Errorf("sent %+v", call)
	}
	if err := c.Do(t.Context(), rest.Call{Method: "BAD METHOD", Path: "/"}, nil); failed(t, err).Class != provider.Refused {
		t.Error(err)
	}
}

func TestAddressesOfServers(t *testing.T) {
	for _, base := range []string{"", "localhost:8000", "ftp://x", "http://", "http://%zz", "/v1"} {
		if _, err := rest.New("Sim", base, "", provider.Source{Secrets: new(secret.Masker)}); err == nil {
			t.Errorf("%q was accepted", base)
		}
	}
}

func TestErrorsHaveAClass(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		class  provider.Class
		sent   bool
		text   string
	}{
		{401, `{"detail":"Invalid token"}`, provider.Auth, false, "Sim refuses this: Invalid token (HTTP 401)"},
		{403, ``, provider.Auth, false, "Sim refuses this (HTTP 403)"},
		{404, `{"message":"no such thing"}`, provider.Refused, false, "Sim refuses this: no such thing (HTTP 404)"},
		{408, `{}`, provider.Down, true, "Sim has failed (HTTP 408)"},
		{413, `{"error":{"code":"x","message":"too long"}}`, provider.TooLarge, false, "Sim refuses this: too long (HTTP 413)"},
		{422, `{"detail":[{"loc":["body"],"msg":"Field\n required"},{"msg":"other"}]}`, provider.Refused, false, "Sim refuses this: Field required (HTTP 422)"},
		{429, `{"error":"slow down"}`, provider.Limit, false, "Sim refuses this: slow down (HTTP 429)"},
		{500, `"text"`, provider.Down, true, "Sim has failed (HTTP 500)"},
		{502, `<html><title>502 Bad Gateway</title></html>`, provider.Down, true, "Sim has failed: 502 Bad Gateway (HTTP 502)"},
		{302, ``, provider.Garbage, false, "Sim refuses this (HTTP 302)"},
		{200, `{"n":"text"}`, provider.Garbage, true, "Sim has sent an answer that cannot be read (HTTP 200)"},
		{200, ``, provider.Garbage, true, "Sim has sent an answer that cannot be read (HTTP 200)"},
		{200, `{"n":1} trailing`, provider.Garbage, true, "Sim has sent an answer that cannot be read (HTTP 200)"},
		{400, `{"detail":"the key sk-0123456789abcdef is bad"}`, provider.Refused, false, "Sim refuses this: the key *** is bad (HTTP 400)"},
	} {
		_, c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://elsewhere.test/")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		e := failed(t, c.Do(t.Context(), rest.Call{Method: "POST", Path: "/"}, new(number)))
		if e.Class != test.class || e.Status != test.status || e.Sent != test.sent || e.Error() != test.text {
			t.Errorf("status %d: class %s, sent %v, %q", test.status, e.Class, e.Sent, e.Error())
		}
	}
}

func TestErrorsDoNotShowANewerToken(t *testing.T) {
	const token = "hch-at-another"
	_, c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		memory.JSON(w, 403, map[string]any{"detail": token + " has expired"})
	})
	c.Header = func() http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	if err := c.Do(t.Context(), rest.Call{Method: "GET", Path: "/"}, nil); strings.Contains(err.Error(), token) {
		t.Errorf("the token is in %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
	})
	err := c.Do(t.Context(), rest.Call{Method: "POST", Path: "/", Body: "x"}, nil)
	if e := failed(t, err); e.Class != provider.Garbage || e.Status != 307 || len(s.Calls()) != 1 {
		t.Errorf("%v after %d calls", err, len(s.Calls()))
	}
}

// A page of a proxy or of a login is no success, also where no answer is expected.
func TestPagesAreNoAnswers(t *testing.T) {
	s, c := serve(t, ok)
	s.Inject(memory.Fault{Kind: memory.Page, Status: 200})
	if e := failed(t, c.Do(t.Context(), rest.Call{Method: "DELETE", Path: "/"}, nil)); e.Class != provider.Garbage || !e.Sent {
		t.Errorf("%+v", e)
	}
	if err := c.Do(t.Context(), rest.Call{Method: "DELETE", Path: "/"}, nil); err != nil {
		t.Error(err)
	}
}

func TestReadsAreRepeatedOnce(t *testing.T) {
	const none = time.Duration(-1) // not repeated
	for _, test := range []struct {
		name  string
		fault memory.Fault
		pause time.Duration
	}{
		{"429", memory.Fault{Kind: memory.Refuse, Status: 429}, 500 * time.Millisecond},
		{"429 with Retry-After", memory.Fault{Kind: memory.Refuse, Status: 429, RetryAfter: 7 * time.Second}, 7 * time.Second},
		{"429 beyond the limit of time", memory.Fault{Kind: memory.Refuse, Status: 429, RetryAfter: 31 * time.Second}, none},
		{"502", memory.Fault{Kind: memory.Page}, 500 * time.Millisecond},
		{"503", memory.Fault{Kind: memory.Refuse, Status: 503}, 500 * time.Millisecond},
		{"504", memory.Fault{Kind: memory.Refuse, Status: 504}, 500 * time.Millisecond},
		{"a broken connection", memory.Fault{Kind: memory.Cut}, 500 * time.Millisecond},
		{"half an answer", memory.Fault{Kind: memory.HalfAfter}, 500 * time.Millisecond},
		{"500", memory.Fault{Kind: memory.Refuse}, none},
		{"401", memory.Fault{Kind: memory.Refuse, Status: 401}, none},
		{"no answer", memory.Fault{Kind: memory.Empty}, none},
	} {
		for _, reads := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s, c := serve(t, ok)
				s.Inject(test.fault)
				start, again := time.Now(), reads && test.pause != none
				var got number
				err := c.Do(t.Context(), rest.Call{Method: "POST", Path: "/", Reads: reads}, &got)
				if took := time.Since(start); again && (err != nil || got.N != 1 || took != test.pause) || !again && (err == nil || took != 0 || len(s.Calls()) != 1) {
					t.Errorf("%s, reads %v: %v after %v and %d calls", test.name, reads, err, took, len(s.Calls()))
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s, c := serve(t, ok)
		s.Inject(memory.Fault{Kind: memory.Page, Times: -1})
		if err := c.Do(t.Context(), rest.Call{Method: "GET", Path: "/", Reads: true}, nil); err == nil || len(s.Calls()) != 2 {
			t.Errorf("%v after %d calls", err, len(s.Calls()))
		}
	})
}

func TestTimeLimits(t *testing.T) {
	for _, test := range []struct {
		call rest.Call
		want time.Duration
	}{
		{rest.Call{}, rest.ReadTimeout},
		{rest.Call{Reads: true}, rest.ReadTimeout},
		{rest.Call{Timeout: rest.WriteTimeout}, rest.WriteTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, c := serve(t, ok)
			s.Inject(memory.Fault{Delay: time.Hour, Times: -1})
			start := time.Now()
			test.call.Method, test.call.Path = "GET", "/"
			e := failed(t, c.Do(t.Context(), test.call, nil))
			if took := time.Since(start); took != test.want || e.Class != provider.Down || !e.Sent || e.Text != "Sim did not answer in time" || len(s.Calls()) != 1 {
				t.Errorf("%v after %v and %d calls", e, took, len(s.Calls()))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // the pause before a repetition ends too
		s, c := serve(t, ok)
		s.Inject(memory.Fault{Kind: memory.Refuse, Status: 429, RetryAfter: 20 * time.Second, Times: -1})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if e := failed(t, c.Do(ctx, rest.Call{Method: "GET", Path: "/", Reads: true}, nil)); e.Class != provider.Limit || time.Since(start) != time.Second {
			t.Errorf("%v after %v", e, time.Since(start))
		}
	})
}

func TestSizeOfAnswers(t *testing.T) {
	const limit = 8 << 20
	for size, class := range map[int]provider.Class{limit: "", limit + 1: provider.Garbage} {
		_, c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `"`+strings.Repeat("x", size-2)+`"`)
		})
		var got string
		err := c.Do(t.Context(), rest.Call{Method: "GET", Path: "/"}, &got)
		if (err == nil) != (class == "") || err != nil && provider.ClassOf(err) != class || err == nil && len(got) != size-2 {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	_, c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		memory.JSON(w, 400, map[string]any{"detail": strings.Repeat("ü", 500)})
	})
	if text := failed(t, c.Do(t.Context(), rest.Call{Method: "GET", Path: "/"}, nil)).Text; len(text) > 230 || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"30": 30 * time.Second, "0": 0, "-5": 0, "soon": 0, "": 0, "9223372036854775807": 1 << 30 * time.Second,
		"Sat, 01 Jan 2000 00:01:00 GMT": time.Minute, "Fri, 31 Dec 1999 00:00:00 GMT": 0,
	} {
		synctest.Test(t, func(t *testing.T) { // where it is the year 2000
			_, c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", header)
				w.WriteHeader(429)
			})
			if e := failed(t, c.Do(t.Context(), rest.Call{Method: "GET", Path: "/"}, nil)); e.RetryAfter != want {
				t.Errorf("%q: %v", header, e.RetryAfter)
			}
		})
	}
}

func TestOwnClientReachesTheServer(t *testing.T) {
	s := memory.New(http.HandlerFunc(ok), nil)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := rest.New("Sim", s.URL, key, provider.Source{Secrets: new(secret.Masker)})
	if err != nil {
		t.Fatal(err)
	}
	var got number
	if err := c.Do(t.Context(), rest.Call{Method: "GET", Path: "/"}, &got); err != nil || got.N != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	s.Close()
	c.Close()
	e := failed(t, c.Do(t.Context(), rest.Call{Method: "POST", Path: "/"}, nil))
	if e.Class != provider.Down || e.Sent || !strings.HasPrefix(e.Text, "Sim cannot be reached: ") {
		t.Errorf("nobody listens: %+v", e)
	}
}

// Calls that are made at the same time keep their connections for the next ones.
func TestConnectionsAreKept(t *testing.T) {
	const parallel = 30
	var mu sync.Mutex
	from, arrived, all := map[string]bool{}, 0, make(chan struct{})
	s := memory.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr] = true
		if arrived++; arrived == parallel {
			close(all)
		}
		wait := all
		mu.Unlock()
		<-wait // all are under way
		ok(w, r)
	}), nil)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c, err := rest.New("Sim", s.URL, key, provider.Source{Secrets: new(secret.Masker)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for range 3 {
		mu.Lock()
		arrived, all = 0, make(chan struct{})
		mu.Unlock()
		var calls sync.WaitGroup
		for range parallel {
			calls.Go(func() {
				if err := c.Do(t.Context(), rest.Call{Method: "GET", Path: "/"}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	// A connection is kept a moment after its answer was read, so a few more may be made.
	if len(from) > 2*parallel-8 {
		t.Errorf("%d connections for 3 times %d calls", len(from), parallel)
	}
}

// transport answers every request.
type transport struct {
	status             int
	retryAfter, answer string
}

func (a transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Retry-After": {a.retryAfter}}, Body: io.NopCloser(strings.NewReader(a.answer)), Request: r}, nil
}

func FuzzAnswer(f *testing.F) {
	f.Add(200, "", `{"n":1}`)
	f.Add(429, "7", `{"detail":"slow"}`)
	f.Add(422, "", `{"detail":[{"msg":"x"}]}`)
	f.Add(502, "Wed, 21 Oct 2015 07:28:00 GMT", `<html><title>502</title>`)
	f.Add(400, "99999999999999999999", `{"error":{"message":"`+key+`"}}`)
	f.Fuzz(func(t *testing.T, status int, after, body string) {
		if status < 100 || status > 999 {
			return // no transport returns it
		}
		c, err := rest.New("Sim", "http://sim.test", key, provider.Source{Secrets: new(secret.Masker), HTTP: &http.Client{Transport: transport{status, after, body}}})
		if err != nil {
			t.Fatal(err)
		}
		c.Header = func() http.Header { return http.Header{"Authorization": {"Bearer " + key}} }
		var got number
		err = c.Do(t.Context(), rest.Call{Method: "GET", Path: "/"}, &got)
		if err == nil {
			return
		}
		if e := failed(t, err); e.Class == "" || e.RetryAfter < 0 || !utf8.ValidString(e.Text) || len(e.Text) > 250 || strings.Contains(e.Text, "\n") {
			t.Errorf("%+v", e)
		}
	})
}
