package apiclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

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
