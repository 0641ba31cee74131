// Package rest is the HTTP client of memory providers. It follows no redirect, so that a
// key is sent only to its own host; limits time and size; and repeats only calls that
// change nothing.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/internal/backoff"
	"hermesd/internal/safehttp"
	"hermesd/internal/secret"
)

// Limits of a call.
const (
	ReadTimeout  = 30 * time.Second // including the body; the default
	WriteTimeout = 120 * time.Second
	maxBody      = 8 << 20 // bytes of an answer
	retryPause   = 500 * time.Millisecond
	maxErrorText = 200 // bytes of a refusal that are shown
	maxIdle      = 32  // connections that are kept: as many as recalls at the same time

	maxRetryAfter = 1 << 30 // seconds; far more does not fit into a Duration
)

// A Client calls one server. Its fields must not be changed after the first call.
type Client struct {
	Label string // of the provider, for errors
	Base  string // URL without a slash at its end
	// Header returns the headers of a call, with the key; called for each.
	Header func() http.Header
	Key    secret.Value // never part of an error

	http *http.Client
}

// New returns a client of the server at base, a URL, whose key is masked from now on. The
// calls are made with s.HTTP; nil: with a new client that reaches only this server and,
// through the proxy of the environment, the public internet.
func New(label, base string, key secret.Value, s provider.Source) (*Client, error) {
	s.Learn(key)
	c := s.HTTP
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: %q is not an http or https URL", label, base)
	}
	if c == nil {
		port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		c = safehttp.New(safehttp.Options{Allow: []string{net.JoinHostPort(u.Hostname(), port)}, Environment: true, Timeout: WriteTimeout, Idle: maxIdle})
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{Label: label, Base: strings.TrimRight(base, "/"), Key: key, http: &own}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A Call is one request.
type Call struct {
	Method, Path string // the path begins with a slash and is escaped
	Query        url.Values
	Body         any         // sent as JSON; nil: no body
	Header       http.Header // in addition to the client's
	// Raw is sent instead of Body, with this content type.
	Raw         []byte
	ContentType string
	Timeout     time.Duration // 0: ReadTimeout
	// Reads: the call changes nothing, so it is repeated once after 429, 502 to 504 and
	// broken connections.
	Reads bool
}

// Do makes a call and decodes the JSON answer into out, unless out is nil; into a *[]byte
// the answer goes as it is. The error is an *provider.Error.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(call.Timeout, ReadTimeout))
	defer cancel()
	err := c.once(ctx, call, out)
	for tries := 0; tries < 1 && call.Reads && repeatable(err); tries++ {
		pause := retryPause
		if e, ok := errors.AsType[*provider.Error](err); ok && e.RetryAfter > 0 {
			pause = e.RetryAfter
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause {
			return err
		}
		if backoff.Sleep(ctx, pause) != nil {
			return err
		}
		err = c.once(ctx, call, out)
	}
	return err
}

func repeatable(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		return false
	}
	switch e.Status {
	case 0:
		return e.Class == provider.Down && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func (c *Client) once(ctx context.Context, call Call, out any) error {
	req, err := c.request(ctx, call)
	if err != nil {
		return &provider.Error{Class: provider.Refused, Text: c.Label + ": the call cannot be made: " + err.Error(), Err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreached(err)
	}
	defer func() { _ = resp.Body.Close() }() // closing a reader has no useful error
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return c.refusal(req, resp, body)
	case err != nil:
		return c.unreached(err)
	case len(body) > maxBody:
		return c.garbage(resp.StatusCode, fmt.Errorf("the answer is longer than %d MiB", maxBody>>20))
	case out == nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		return c.garbage(resp.StatusCode, errors.New("the answer is an HTML page")) // of a proxy or a login
	case out == nil:
		return nil
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return c.garbage(resp.StatusCode, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	target := c.Base + call.Path
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	body, kind := call.Raw, call.ContentType
	if call.Body != nil {
		var err error
		if body, err = json.Marshal(call.Body); err != nil {
			return nil, err
		}
		kind = "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.Header != nil {
		req.Header = c.Header()
	}
	for name, values := range call.Header {
		req.Header[name] = values
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// unreached returns the error of a call without a whole answer.
func (c *Client) unreached(err error) error {
	text := "does not answer"
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = "did not answer in time"
	case errors.As(err, &op) && op.Op == "dial":
		text = "cannot be reached: " + op.Err.Error()
	}
	return &provider.Error{Class: provider.Down, Sent: op == nil || op.Op != "dial", Text: c.Label + " " + text, Err: err}
}

func (c *Client) garbage(status int, err error) error {
	return &provider.Error{Class: provider.Garbage, Status: status, Sent: true, Text: c.Label + " has sent an answer that cannot be read", Err: err}
}

// refusal returns the error of an answer with a status that is not a success.
func (c *Client) refusal(req *http.Request, resp *http.Response, body []byte) error {
	e := &provider.Error{Class: provider.Refused, Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Class = provider.Auth
	case s == http.StatusTooManyRequests:
		e.Class = provider.Limit
	case s == http.StatusRequestEntityTooLarge:
		e.Class = provider.TooLarge
	case s == http.StatusRequestTimeout || s >= 500:
		e.Class, e.Sent = provider.Down, true
	case s < 400:
		e.Class = provider.Garbage // a redirect
	}
	e.Text = c.Label + " refuses this"
	if e.Class == provider.Down {
		e.Text = c.Label + " has failed"
	}
	_, sent, _ := strings.Cut(req.Header.Get("Authorization"), " ") // may be newer than c.Key
	if text := clean(detail(body), c.Key, secret.Value(sent)); text != "" {
		e.Text += ": " + text
	}
	return e
}

// clean returns text in one line, cut, without keys.
func clean(text string, keys ...secret.Value) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	for _, key := range keys {
		if k := key.Reveal(); k != "" {
			text = strings.ReplaceAll(text, k, "***")
		}
	}
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

// detail returns the message of a refusal: the first of the fields detail, message, error
// and error.message that is text, or the messages of FastAPI's list; the title of an HTML
// page; "" if there is none.
func detail(body []byte) string {
	var v struct {
		Detail, Message, Error json.RawMessage
	}
	if json.Unmarshal(body, &v) != nil {
		_, rest, ok := bytes.Cut(body, []byte("<title>"))
		if title, _, closed := bytes.Cut(rest, []byte("</title>")); ok && closed {
			return string(title)
		}
		return ""
	}
	for _, raw := range []json.RawMessage{v.Detail, v.Message, v.Error} {
		var text string
		var list []struct{ Msg string }
		var object struct{ Message string }
		switch {
		case json.Unmarshal(raw, &text) == nil && text != "":
			return text
		case json.Unmarshal(raw, &list) == nil && len(list) > 0:
			return list[0].Msg
		case json.Unmarshal(raw, &object) == nil && object.Message != "":
			return object.Message
		}
	}
	return ""
}

// retryAfter parses the header Retry-After: seconds or a date.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(s); err == nil {
		return time.Duration(min(max(n, 0), maxRetryAfter)) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}
