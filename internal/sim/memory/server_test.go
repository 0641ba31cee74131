package memory_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory"
	"hermesd/internal/sim/memory/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter is an API that counts its calls.
type counter struct{ n int }

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.n++
	body, _ := io.ReadAll(r.Body)
	memory.JSON(w, http.StatusCreated, map[string]any{"n": c.n, "body": string(body)})
}

func detail(_ int, message string) any { return map[string]any{"detail": message} }

func newServer(t *testing.T) (*counter, simtest.Caller) {
	t.Helper()
	api := new(counter)
	s := memory.New(api, detail)
	t.Cleanup(s.Close)
	return api, simtest.Caller{T: t, Server: s, Header: map[string]string{"Authorization": "Bearer secret"}}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  memory.Fault
		status int // 0: the connection broke
		text   string
		effect bool
	}{
		{"none", memory.Fault{Times: -1}, 201, `{"body":"hello","n":1}`, true},
		{"refused", memory.Fault{Kind: memory.Refuse}, 500, `{"detail":"Internal Server Error"}`, false},
		{"unauthorized", memory.Fault{Kind: memory.Refuse, Status: 401}, 401, `{"detail":"Unauthorized"}`, false},
		{"page", memory.Fault{Kind: memory.Page, Status: 503}, 503, "503 Service Unavailable</title>", false},
		{"cut", memory.Fault{Kind: memory.Cut}, 0, "", false},
		{"lost answer", memory.Fault{Kind: memory.CutAfter}, 0, "", true},
		{"half an answer", memory.Fault{Kind: memory.HalfAfter}, 0, "", true},
		{"half of the body", memory.Fault{Kind: memory.ShortAfter}, 201, `{"body":"h`, true},
		{"large", memory.Fault{Kind: memory.Huge, Size: 10 << 20}, 200, "xxx", false},
		{"empty", memory.Fault{Kind: memory.Empty}, 200, "", false},
		{"huge", memory.Fault{Kind: memory.Huge}, 200, "xxx", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			api, c := newServer(t)
			c.Server.Inject(test.fault)
			a, err := c.Try("POST", "/x?q=1", "hello")
			if (err != nil) != (test.status == 0) || err == nil && a.Status != test.status || !strings.Contains(a.Text, test.text) {
				t.Errorf("status %d, error %v, text %.80q", a.Status, err, a.Text)
			}
			if (api.n == 1) != test.effect {
				t.Errorf("API called %d times", api.n)
			}
			calls := c.Server.Calls()
			if len(calls) != 1 || calls[0].Effect != test.effect || calls[0].Key != "secret" || string(calls[0].Body) != "hello" || calls[0].Query.Get("q") != "1" {
				t.Errorf("recorded %+v", calls)
			}
			if n, half := len(a.Text), `{"body":"hello","n":1}`[:11]; test.name == "huge" && n < 50<<20 || test.name == "large" && (n < 10<<20 || n > 11<<20) || test.name == "half of the body" && a.Text != half {
				t.Errorf("%d bytes: %.80q", n, a.Text)
			}
		})
	}
}

func TestFaultsAreForSomeCallsOnly(t *testing.T) {
	_, c := newServer(t)
	c.Server.Inject(memory.Fault{Kind: memory.Refuse, Status: 429, RetryAfter: 7 * time.Second, Method: "PUT", Path: "/y", Skip: 1, Times: 2})
	c.Call(201, "POST", "/y", "")
	c.Call(201, "PUT", "/x", "")
	c.Call(201, "PUT", "/y", "")
	if a := c.Call(429, "PUT", "/y", ""); a.Header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
	}
	c.Call(429, "PUT", "/y/z", "")
	c.Call(201, "PUT", "/y", "")
	c.Server.Inject(memory.Fault{Kind: memory.Refuse, Times: -1})
	c.Call(500, "PUT", "/y", "")
	c.Server.Heal()
	c.Call(201, "PUT", "/y", "")
	if n := c.Server.Count("PUT", "/y"); n != 3 {
		t.Errorf("%d calls had an effect", n)
	}
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newServer(t)
		c.Server.Inject(memory.Fault{Delay: 10 * time.Second, Late: time.Second})
		start := time.Now()
		c.Call(201, "GET", "/", "")
		if d := time.Since(start); d != 11*time.Second {
			t.Errorf("answered after %v", d)
		}
	})
}

func TestLoopback(t *testing.T) {
	s := memory.New(new(counter), detail)
	t.Cleanup(s.Close)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.URL + "/") //nolint:noctx // ends with the server
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestSearch(t *testing.T) {
	texts := []string{"Ann prefers green tea", "The deployment is on Fridays", "Green is a colour"}
	if hits := memory.Search("which tea is green?", texts, 5); len(hits) != 2 || hits[0].Index != 0 || hits[1].Index != 2 || hits[0].Score <= hits[1].Score {
		t.Errorf("found %v", hits)
	}
	if hits := memory.Search("green", texts, 1); len(hits) != 1 {
		t.Errorf("limit: %v", hits)
	}
	if hits := memory.Search("a is", texts, 5); len(hits) != 0 {
		t.Errorf("short words: %v", hits)
	}
}
