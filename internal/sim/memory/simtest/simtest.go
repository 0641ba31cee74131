// Package simtest calls simulators of memory providers in their tests.
package simtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"hermesd/internal/sim/memory"
)

// A Caller calls one server.
type Caller struct {
	T      testing.TB
	Server *memory.Server
	Header map[string]string // of each request, with the key
}

// With returns a Caller that also sends a header, or another value of it.
func (c Caller) With(name, value string) Caller {
	c.Header = maps.Clone(c.Header)
	c.Header[name] = value
	return c
}

// An Answer is the answer to a call.
type Answer struct {
	Status int
	Header http.Header
	Text   string
}

// Field returns the value at a path of names and numbers in the JSON answer, as text.
func (a Answer) Field(path ...any) string {
	var v any
	if err := json.Unmarshal([]byte(a.Text), &v); err != nil {
		return "no JSON: " + a.Text
	}
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return ""
			}
			v = l[p]
		}
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// Try sends a request; the error is that of the connection.
func (c Caller) Try(method, path, body string) (Answer, error) {
	c.T.Helper()
	req, err := http.NewRequestWithContext(c.T.Context(), method, c.Server.URL+path, strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	for name, value := range c.Header {
		req.Header.Set(name, value)
	}
	resp, err := c.Server.Client().Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // closing a reader has no useful error
	raw, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(raw)}, err
}

// Call sends a request that must be answered with a status.
func (c Caller) Call(status int, method, path, body string) Answer {
	c.T.Helper()
	a, err := c.Try(method, path, body)
	if err != nil {
		c.T.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != status {
		c.T.Fatalf("%s %s: status %d, want %d: %s", method, path, a.Status, status, a.Text)
	}
	return a
}
