// Package apiclient sends the requests of slack-go. For each failed call of the Web
// API it records whether Slack may have received it.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// maxAnswer limits how many bytes of one answer are read.
const maxAnswer = 32 << 20

// callTimeout limits a call whose context has no deadline.
const callTimeout = 30 * time.Second

// An Error is a call that ended without an answer of the Web API. Its text never
// contains a token.
type Error struct {
	// Sent is true if the whole request may have reached Slack.
	Sent bool
	// Status is the HTTP status of the answer; 0 if there was none.
	Status int
	text   string
	err    error // cause, without any URL; may be nil
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.err }

// A Client is the HTTP client of slack-go. Answers that are not from the Web API
// become an *Error. Answers to sends are reduced to what proves that the message
// arrived, so that nothing else in them can make the message look unsent.
type Client struct {
	RT http.RoundTripper
	// Base is the address of the Web API, with a trailing slash.
	Base string
	// Hidden are the secrets that errors must not contain.
	Hidden []secret.Value
}

// Do implements slack-go's HTTP client.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	method, api := strings.CutPrefix(req.URL.String(), c.Base)
	if !api {
		resp, err := (&http.Client{Transport: c.RT, CheckRedirect: transport.NoRedirect}).Do(req)
		if err != nil {
			return nil, c.lost(true, err)
		}
		return resp, nil
	}
	method, _, _ = strings.Cut(method, "?")
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
	}
	defer cancel()
	return c.call(req.WithContext(ctx), method)
}

func (c *Client) call(req *http.Request, method string) (*http.Response, error) {
	var asked, joined atomic.Bool
	// The library's request bodies are in memory, and a request is written at
	// once: Slack cannot have it before the request was given a connection. If it
	// is written again on another connection, it was not read on the first.
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true); joined.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { joined.Store(true) },
	}))
	resp, err := (&http.Client{Transport: c.RT, CheckRedirect: transport.NoRedirect}).Do(req)
	if err != nil {
		return nil, c.lost(joined.Load() || !asked.Load(), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.lost(true, err)
	}
	var answer struct {
		OK *bool `json:"ok"`
	}
	limited := resp.StatusCode == http.StatusTooManyRequests
	if limited && wholeSeconds(resp.Header.Get("Retry-After")) {
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil // the library converts it to a RateLimitedError
	}
	if limited || json.Unmarshal(body, &answer) != nil || answer.OK == nil {
		return nil, &Error{Sent: true, Status: resp.StatusCode, text: fmt.Sprintf("%s: an answer with status %d that is not the Web API's", method, resp.StatusCode)}
	}
	resp.StatusCode = http.StatusOK // the answer is from the Web API
	if makesMessage(method) {
		body = slim(body)
	}
	if m, ok := req.Context().Value(messagesKey{}).(*[]json.RawMessage); ok {
		body = takeMessages(body, m)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

type messagesKey struct{}

// WithMessages returns a context for a call of conversations.history or
// conversations.replies: the messages of the answer are stored in m as Slack sent
// them, and slack-go gets none. It would reject all of them because of one element
// that is newer than the library.
func WithMessages(ctx context.Context, m *[]json.RawMessage) context.Context {
	return context.WithValue(ctx, messagesKey{}, m)
}

// takeMessages moves the messages of an answer to m.
func takeMessages(body []byte, m *[]json.RawMessage) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields["messages"] == nil || json.Unmarshal(fields["messages"], m) != nil {
		return body
	}
	fields["messages"] = json.RawMessage("[]")
	out, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return out
}

func wholeSeconds(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == ""
}

// lost returns the error of a call without a complete answer.
func (c *Client) lost(sent bool, err error) *Error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return &Error{Sent: sent, text: c.Mask(err.Error()), err: err}
}

// Mask returns s without the hidden secrets.
func (c *Client) Mask(s string) string {
	for _, h := range c.Hidden {
		if h != "" {
			s = strings.ReplaceAll(s, h.Reveal(), "***")
		}
	}
	return s
}

func makesMessage(method string) bool {
	switch method {
	case "chat.postMessage", "chat.postEphemeral", "chat.update":
		return true
	}
	return false
}

// slim reduces an answer to the fields that tell whether the message exists.
func slim(body []byte) []byte {
	var keep struct {
		OK       bool   `json:"ok"`
		Error    string `json:"error,omitempty"`
		Needed   string `json:"needed,omitempty"`
		Provided string `json:"provided,omitempty"`
		Channel  string `json:"channel,omitempty"`
		TS       string `json:"ts,omitempty"`
		Meta     struct {
			Messages []string `json:"messages,omitempty"`
		} `json:"response_metadata"`
	}
	if err := json.Unmarshal(body, &keep); err != nil {
		return body
	}
	out, err := json.Marshal(keep)
	if err != nil {
		return body
	}
	return out
}
