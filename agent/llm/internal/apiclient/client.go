// Package apiclient is what the clients of model services share: a request with its
// time limits, the stream of events that answers it, and JSON written by hand,
// so that the same message is the same bytes for ever.
package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/internal/secret"
)

// A Client posts requests to one service. It follows no redirect, so that a
// key only ever goes to the host that it is for.
type Client struct {
	Name    string // of the provider, for errors
	HTTP    *http.Client
	Headers map[string]string
	Key     secret.Value
	Timeout time.Duration // of a whole answer
	Idle    time.Duration // without a byte
}

// NewHTTP returns a client for requests to model services: c without redirects
// and without a time limit of its own, or one of our own if c is nil.
func NewHTTP(c *http.Client) *http.Client {
	var own http.Client
	if c != nil {
		own = *c
	} else {
		own.Transport = newTransport()
	}
	own.Timeout = 0
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

func newTransport() *http.Transport {
	d := &net.Dialer{Timeout: 30 * time.Second, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3,
	}}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           d.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		MaxIdleConnsPerHost:   32,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

var (
	errIdle  = errors.New("nothing came for too long")
	errTotal = errors.New("the answer took too long")
)

// A Call is one request under way. It must be closed.
type Call struct {
	c      *Client
	outer  context.Context // the caller's
	ctx    context.Context // with our limits
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
	timer  *time.Timer
	body   io.ReadCloser
	events *events
	large  bool
	header http.Header
}

// largeBody is the size from which a refusal without words is taken to mean
// the length: about 80,000 tokens.
const largeBody = 320_000

// Post sends body and returns the answer's stream of events. An answer of any
// other kind is an *llm.Error. ctx governs the stream too.
func (c *Client) Post(ctx context.Context, url string, header http.Header, body *Body) (*Call, error) {
	call := &Call{c: c, outer: ctx, large: body.Len() > largeBody}
	limited, stop := context.WithTimeoutCause(ctx, c.Timeout, errTotal)
	call.ctx, call.cancel = context.WithCancelCause(limited)
	call.stop = stop
	call.timer = time.AfterFunc(c.Idle, func() { call.cancel(errIdle) })
	if err := call.open(url, header, body); err != nil {
		call.Close()
		return nil, err
	}
	return call, nil
}

func (call *Call) open(url string, header http.Header, body *Body) error {
	c := call.c
	req, err := http.NewRequestWithContext(call.ctx, http.MethodPost, url, body.reader())
	if err != nil {
		return &llm.Error{Class: llm.Format, Provider: c.Name, Message: "the base URL cannot be used"}
	}
	req.ContentLength = int64(body.Len())
	req.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for k, v := range c.Headers {
		req.Header.Set(k, v)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return call.failed(err)
	}
	call.body, call.header = resp.Body, resp.Header
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		call.events = newEvents(alive{call})
		return nil
	}
	said, err := io.ReadAll(io.LimitReader(alive{call}, 64<<10))
	if err != nil && call.ctx.Err() != nil {
		return call.failed(err)
	}
	if resp.StatusCode != http.StatusOK {
		return call.Refused(resp.StatusCode, said)
	}
	if e := call.Refused(resp.StatusCode, said); e.Class != llm.Unknown {
		return e
	}
	return call.Garbage("the answer is no stream of events", nil)
}

// Next returns the next event; io.EOF when the service ended the stream, an
// *llm.Error when it broke, or the cause of the caller's context.
func (call *Call) Next() (Event, error) {
	call.timer.Reset(call.c.Idle)
	defer call.timer.Stop() // a slow reader of events is no silent service
	e, err := call.events.next()
	switch {
	case call.outer.Err() != nil: // events that are there already count no more
		return Event{}, context.Cause(call.outer)
	case err == nil:
		return e, nil
	case call.ctx.Err() == nil && errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return Event{}, io.EOF
	case errors.Is(err, errEventTooLong):
		return Event{}, call.Garbage("", err)
	}
	return Event{}, call.failed(err)
}

// Close gives everything back that the call holds.
func (call *Call) Close() {
	call.timer.Stop()
	call.cancel(context.Canceled)
	call.stop()
	if call.body != nil {
		_ = call.body.Close()
	}
}

// failed says what it means that the connection gave err.
func (call *Call) failed(err error) error {
	if call.outer.Err() != nil {
		return context.Cause(call.outer)
	}
	switch cause := context.Cause(call.ctx); {
	case errors.Is(cause, errIdle):
		return &llm.Error{Class: llm.Timeout, Provider: call.c.Name, Message: fmt.Sprintf("nothing came for %v", call.c.Idle)}
	case errors.Is(cause, errTotal):
		return &llm.Error{Class: llm.Timeout, Provider: call.c.Name, Message: fmt.Sprintf("no complete answer within %v", call.c.Timeout)}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return call.Cut()
	}
	return &llm.Error{Class: llm.Network, Provider: call.c.Name, Err: err}
}

// Cut returns the error of a stream that ended before the answer was complete.
func (call *Call) Cut() *llm.Error {
	return &llm.Error{Class: llm.Network, Provider: call.c.Name, Message: "the stream ended before the answer was complete"}
}

// Garbage returns the error of an answer that cannot be understood. what names
// the place and quotes nothing.
func (call *Call) Garbage(what string, err error) *llm.Error {
	return &llm.Error{Class: llm.InvalidResponse, Provider: call.c.Name, Message: what, Err: err}
}

// Refused returns the error that a status and body mean; status 200 is for an
// error inside a stream.
func (call *Call) Refused(status int, body []byte) *llm.Error {
	e := llm.Classify(llm.ErrorResponse{
		Provider: call.c.Name, Status: status, Header: call.header, Body: body, Large: call.large, At: time.Now(),
	})
	if k := call.c.Key.Reveal(); k != "" {
		e.Message = strings.ReplaceAll(e.Message, k, "<secret>")
	}
	return e
}

// alive reads the body and puts the idle limit off at every byte.
type alive struct{ call *Call }

func (a alive) Read(p []byte) (int, error) {
	n, err := a.call.body.Read(p)
	if n > 0 {
		a.call.timer.Reset(a.call.c.Idle)
	}
	return n, err
}

// Limits returns the timeouts to use, with the defaults where they are zero.
func Limits(total, idle, idleDefault time.Duration) (time.Duration, time.Duration) {
	return cmp.Or(total, 30*time.Minute), cmp.Or(idle, idleDefault)
}
