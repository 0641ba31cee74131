package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/gateway/chat"
)

// A webSite is a client of the HTTP API.
type webSite struct {
	w       *harness
	address string
	client  *http.Client

	mu  sync.Mutex // guards the fields below
	got []string   // texts of answers
}

// A post is a request of the HTTP API.
type post struct {
	body    string
	key     string // "" for the daemon's own key
	headers map[string]string
}

func newWebSite(w *harness) *webSite {
	w.Helper()
	l := freePort(w)
	s := &webSite{w: w, address: l.Addr().String(), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if err := l.Close(); err != nil {
		w.Fatal(err)
	}
	return s
}

// freePort listens on a port below the range from which the system assigns ports to
// outgoing connections.
func freePort(w *harness) net.Listener {
	w.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))); err == nil {
			return l
		}
	}
	w.Fatal("no port is free")
	return nil
}

func (*webSite) platform() chat.Platform { return chat.HTTP }

func (s *webSite) section() string {
	return fmt.Sprintf("  http:\n    enabled: true\n    listen: %s\n", s.address)
}

func (s *webSite) key() string {
	raw, err := os.ReadFile(s.w.path("http.key"))
	if err != nil {
		s.w.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// question returns the body of a request with one message.
func question(text, more string) string {
	return fmt.Sprintf(`{"model":"hermes","messages":[{"role":"user","content":%q}]%s}`, text, more)
}

// post sends a request and returns the status and the body of the answer.
func (s *webSite) post(ctx context.Context, p post) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/v1/chat/completions", bytes.NewBufferString(p.body))
	if err != nil {
		return 0, "", err
	}
	if p.key == "" {
		p.key = s.key()
	}
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", "application/json")
	for k, v := range p.headers {
		r.Header.Set(k, v)
	}
	if h := p.headers["Host"]; h != "" {
		r.Host = h
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// answer returns the text of a completion.
func answer(body string) string {
	var c struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal([]byte(body), &c) != nil || len(c.Choices) == 0 {
		return body
	}
	return c.Choices[0].Message.Content
}

func (s *webSite) say(text string) {
	s.w.Helper()
	_, body, err := s.post(s.w.ctx, post{body: question(text, "")})
	if err != nil {
		s.w.fatal(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, answer(body))
}

func (s *webSite) wait(ctx context.Context, text string) error {
	return s.changes(ctx, func() bool {
		return slices.ContainsFunc(s.visible(), func(t string) bool { return strings.Contains(t, text) })
	})
}

// changes polls: there is no recorder to wait for.
func (s *webSite) changes(ctx context.Context, cond func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (s *webSite) visible() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *webSite) secrets() []string {
	raw, err := os.ReadFile(s.w.path("http.key"))
	if err != nil {
		return nil // not created
	}
	return []string{strings.TrimSpace(string(raw))}
}

func (s *webSite) dump() string { return fmt.Sprintf("  http: %q\n", s.visible()) }
