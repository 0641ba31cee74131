// Package apiclient implements the parts that clients of model services share: requests
// with time limits, the event stream of the response, and JSON encoding with reproducible
// bytes, so that the same message is always encoded to the same bytes.
package apiclient

import (
	"bufio"
	"bytes"
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

// A Client posts requests to one service. It follows no redirect, so that a key is sent
// only to its own host.
type Client struct {
	Name    string // provider name, for errors
	HTTP    *http.Client
	Headers map[string]string
	Key     secret.Value
	Timeout time.Duration // for the whole answer
	Idle    time.Duration // maximum time without a byte
}

// NewHTTP returns an HTTP client for model services: a copy of c without redirects and
// without a time limit of its own. A nil c means a new client with its own transport.
func NewHTTP(c *http.Client) *http.Client {
	var client http.Client
	if c != nil {
		client = *c
	} else {
		client.Transport = newTransport()
	}
	client.Timeout = 0
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
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

// A Call is one running request. It must be closed.
type Call struct {
	c      *Client
	outer  context.Context // the caller's
	ctx    context.Context // with the client's time limits
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
	timer  *time.Timer
	body   io.ReadCloser
	events *events
	large  bool
	header http.Header
	// isComplete is true if nothing is missing in the events that were read.
	isComplete bool
}

// largeBody is the body size, in bytes, from which a rejection without an explanation is
// attributed to the length: about 80,000 tokens.
const largeBody = 320_000

// Post sends body and opens the event stream of the response. Any other response is
// returned as an *llm.Error. ctx also ends the stream.
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
		call.events = newEvents(idleReader{call})
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(idleReader{call}, 64<<10))
	if err != nil && call.ctx.Err() != nil {
		return call.failed(err)
	}
	if resp.StatusCode != http.StatusOK {
		return call.Refused(resp.StatusCode, raw)
	}
	if e := call.Refused(resp.StatusCode, raw); e.Class != llm.Unknown {
		return e
	}
	return call.Garbage("the answer is no stream of events", nil)
}

// Next returns the next event; io.EOF when the service ended the stream, an *llm.Error when
// the stream broke, or the cause of the caller's context.
func (call *Call) Next() (Event, error) {
	call.timer.Reset(call.c.Idle)
	defer call.timer.Stop() // a slow reader is not an idle service
	e, err := call.events.next()
	switch {
	case call.outer.Err() != nil: // buffered events no longer count
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

// Complete reports that the answer is complete, although the response has not ended.
func (call *Call) Complete() { call.isComplete = true }

// The rest of a response is read for at most drainTimeout, and at most maxDrain bytes of it.
const (
	drainTimeout = time.Second
	maxDrain     = 64 << 10
)

// Close stops the request and releases its resources. After Complete it does so in the
// background, once the response has ended: an HTTP/1.1 connection whose response was not
// read to the end cannot serve the next request.
func (call *Call) Close() {
	if !call.isComplete {
		call.release()
		return
	}
	call.timer.Reset(drainTimeout)
	go func() {
		defer call.release()
		_, _ = io.CopyN(io.Discard, call.body, maxDrain) // a failure ends the connection, as without Complete
	}()
}

func (call *Call) release() {
	call.timer.Stop()
	call.cancel(context.Canceled)
	call.stop()
	if call.body != nil {
		_ = call.body.Close()
	}
}

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

// Cut returns the error for a stream that ended before the answer was complete.
func (call *Call) Cut() *llm.Error {
	return &llm.Error{Class: llm.Network, Provider: call.c.Name, Message: "the stream ended before the answer was complete"}
}

// Garbage returns the error for a response that cannot be decoded. what names the place and
// quotes nothing.
func (call *Call) Garbage(what string, err error) *llm.Error {
	return &llm.Error{Class: llm.InvalidResponse, Provider: call.c.Name, Message: what, Err: err}
}

// Refused returns the error for a status and body; status 200 is for an error inside a
// stream.
func (call *Call) Refused(status int, body []byte) *llm.Error {
	e := llm.Classify(llm.ErrorResponse{
		Provider: call.c.Name, Status: status, Header: call.header, Body: body, Large: call.large, At: time.Now(),
	})
	if k := call.c.Key.Reveal(); k != "" {
		e.Message = strings.ReplaceAll(e.Message, k, "<secret>")
	}
	return e
}

// idleReader reads the body and restarts the idle timer with every byte.
type idleReader struct{ call *Call }

func (a idleReader) Read(p []byte) (int, error) {
	n, err := a.call.body.Read(p)
	if n > 0 {
		a.call.timer.Reset(a.call.c.Idle)
	}
	return n, err
}

// Limits returns the timeouts to use, with defaults for zero values.
func Limits(total, idle, idleDefault time.Duration) (time.Duration, time.Duration) {
	return cmp.Or(total, 30*time.Minute), cmp.Or(idle, idleDefault)
}

// A Body is a request body. Encoded messages of the transcript are part of it by reference:
// a long conversation is copied only once, into the connection.
type Body struct {
	// Buf holds the bytes encoded for this request. Encoders append to it.
	Buf  []byte
	cuts []cut
	size int // bytes of the pieces in cuts
}

// A cut is a shared piece that is inserted before offset at of Buf.
type cut struct {
	offset int
	piece  []byte
}

// minShared is the minimum size of a piece that is not copied, in bytes.
const minShared = 16 << 10

// Share appends a piece, which must never change afterwards.
func (b *Body) Share(piece []byte) {
	if len(piece) < minShared {
		b.Buf = append(b.Buf, piece...)
		return
	}
	b.cuts = append(b.cuts, cut{len(b.Buf), piece})
	b.size += len(piece)
}

// Len returns the size of the body in bytes.
func (b *Body) Len() int { return len(b.Buf) + b.size }

// Bytes returns the whole body.
func (b *Body) Bytes() []byte {
	if len(b.cuts) == 0 {
		return b.Buf
	}
	whole := make([]byte, 0, b.Len())
	for piece := range b.pieces {
		whole = append(whole, piece...)
	}
	return whole
}

// reader returns an independent reader of the body from its start.
func (b *Body) reader() io.ReadCloser {
	readers := make([]io.Reader, 0, 2*len(b.cuts)+1)
	for piece := range b.pieces {
		readers = append(readers, bytes.NewReader(piece))
	}
	// Without its WriteTo method, which would allocate a buffer that it does not use.
	return io.NopCloser(struct{ io.Reader }{io.MultiReader(readers...)})
}

func (b *Body) pieces(yield func([]byte) bool) {
	from := 0
	for _, c := range b.cuts {
		if !yield(b.Buf[from:c.offset]) || !yield(c.piece) {
			return
		}
		from = c.offset
	}
	yield(b.Buf[from:])
}

// An Event is one server-sent event.
type Event struct {
	Name string // "" for none
	Data []byte // its data lines, joined by line feeds; valid until the next event
}

// maxEvent is the maximum size of one event, in bytes.
const maxEvent = 32 << 20

var errEventTooLong = errors.New("an event of the stream is too long")

// events reads server-sent events, with lines that end in LF or CR LF. Comments and fields
// other than event and data are skipped. An event that is truncated by the end of the
// stream is not delivered.
type events struct {
	r    *bufio.Reader
	line []byte
	data []byte
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 8<<10)} }

// next returns the next event, or the error that ended the stream; io.EOF when the stream
// ended normally.
func (s *events) next() (Event, error) {
	var e Event
	s.data = s.data[:0]
	seen := false
	for {
		line, err := s.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if !seen {
				e.Name = ""
				continue
			}
			e.Data = bytes.TrimSuffix(s.data, []byte("\n"))
			return e, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.Name = string(value)
		case "data":
			seen = true
			s.data = append(append(s.data, value...), '\n')
			if len(s.data) > maxEvent {
				return Event{}, errEventTooLong
			}
		}
	}
}

func (s *events) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		switch {
		case err == nil && len(s.line) == 0:
			return trimLine(part), nil
		case err == nil:
			return trimLine(append(s.line, part...)), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read: %w", err)
		}
		if s.line = append(s.line, part...); len(s.line) > maxEvent {
			return nil, errEventTooLong
		}
	}
}

var bom = []byte("\xef\xbb\xbf")

func trimLine(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimPrefix(bytes.TrimSuffix(b, []byte("\r")), bom)
}
