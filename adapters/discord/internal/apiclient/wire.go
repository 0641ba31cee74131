// Package apiclient sends the calls to Discord's REST API. For each failed call
// it records whether the server may have received the request.
//
// The calls are built by the library's session, but the library's handling of
// answers is bypassed: it sleeps near a rate limit, waits for a 429 without
// observing the context, and retries a 502. A transport below the library
// records the answer, and that record determines the result.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// Origin is the default address of Discord's API.
const Origin = "https://discord.com"

// A Client makes the calls of one account. Its methods are safe for concurrent
// use and do not wait for rate limits.
type Client struct {
	token secret.Value
	rt    *carrier
	rest  *discordgo.Session
}

// New returns a client that sends its calls through rt to base instead of
// Origin.
func New(token secret.Value, base string, rt http.RoundTripper) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("api_url: not a URL")
	}
	c := &Client{token: token, rt: &carrier{base: u, rt: rt, limits: &limits{buckets: map[string]time.Time{}}}}
	if c.rest, err = c.Session(context.Background()); err != nil {
		return nil, err
	}
	c.rest.Client.Timeout = callLimit
	return c, nil
}

// Session returns a new library session whose own calls end with ctx. It keeps
// no state, does not log, and neither waits nor reconnects by itself.
func (c *Client) Session(ctx context.Context) (*discordgo.Session, error) {
	s, err := discordgo.New("Bot " + c.token.Reveal())
	if err != nil {
		return nil, errors.New("library rejected the token") // its text may contain the token
	}
	s.Client = &http.Client{Transport: within{ctx, c.rt}, CheckRedirect: transport.NoRedirect, Timeout: askLimit}
	s.StateEnabled = false
	s.SyncEvents = true
	s.ShouldReconnectOnError = false
	s.ShouldReconnectVoiceOnSessionError = false
	s.ShouldRetryOnRateLimit = false
	s.MaxRestRetries = 0
	s.Compress, s.Identify.Compress = false, false
	s.LogLevel = -1
	return s, nil
}

const (
	// callLimit limits the duration of every call; callers set shorter limits by
	// their context.
	callLimit = 6 * time.Minute
	// askLimit limits the duration of calls that the library makes by itself.
	askLimit = 15 * time.Second
)

// A within adds a context to those library calls that have none.
type within struct {
	ctx context.Context
	rt  http.RoundTripper
}

func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.ctx.Done() == nil {
		return w.rt.RoundTrip(r)
	}
	return w.rt.RoundTrip(r.WithContext(w.ctx)) // the library sets none, so nothing is lost
}

// A Call is one request.
type Call struct {
	Method string
	Path   string // without the API version
	Body   any    // as JSON; nil: none
	File   *Upload
	// Bucket is the rate-limit bucket of this call.
	Bucket string
}

// An Error is a call without a usable result. Its text contains neither the
// token nor an address, which may include a token.
type Error struct {
	// Sent is true if the request may have reached the server.
	Sent bool
	// Status is the HTTP status of the answer; 0 if there was none.
	Status int
	// API is true if the answer came from Discord's API and not from an
	// intermediary.
	API bool
	// Code is Discord's error code; 0 if none.
	Code int
	// After is the delay that Discord asks for. Global is true if it applies to
	// all calls.
	After  time.Duration
	Global bool
	// Detail is Discord's description of the invalid fields, in lower case.
	Detail string
	text   string
	err    error
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.err }

// Code returns Discord's error code of err, 0 if err has none.
func Code(err error) int {
	if we, ok := errors.AsType[*Error](err); ok && we.API {
		return we.Code
	}
	return 0
}

// Do makes one call and decodes the result into out unless out is nil. Its error
// is an *Error, or reports that the result cannot be decoded.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	n := &note{bucket: call.Bucket, file: call.File}
	kind, body := "application/json", []byte(nil)
	if call.Body != nil {
		var err error
		if body, err = json.Marshal(call.Body); err != nil {
			return &Error{text: "write the request: " + err.Error(), err: err}
		}
	}
	if call.File != nil {
		n.json, kind, body = body, "multipart/form-data; boundary="+border, []byte{}
	}
	ctx = context.WithValue(ctx, noteKey{}, n)
	// A separate limiter, because the library's would sleep.
	bucket := discordgo.NewRatelimiter().LockBucket(call.Bucket)
	_, err := c.rest.RequestWithLockedBucket(call.Method, discordgo.EndpointAPI+strings.TrimPrefix(call.Path, "/"),
		kind, body, bucket, 0, discordgo.WithContext(ctx))
	answer, err := n.result(err)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) {
			return &Error{Sent: true, Status: n.status, text: "the answer is not from Discord's API"}
		}
	}
	return nil
}

func (n *note) result(err error) ([]byte, error) {
	switch {
	case n.local != nil:
		return nil, n.local
	case n.status >= 200 && n.status < 300 && n.whole:
		return n.body, nil
	case n.status == 0 || !n.whole:
		if err == nil {
			err = errors.New("no answer")
		}
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		if n.err != nil {
			err = n.err
		}
		return nil, Lost(n.joined.Load(), err)
	}
	return nil, n.refusal()
}

// Lost returns the error of a call without a complete answer. sent is true if
// the server may have received the request.
func Lost(sent bool, err error) *Error { return &Error{Sent: sent, text: err.Error(), err: err} }

// refusal converts an answer that is not a result to an Error.
func (n *note) refusal() *Error {
	e := &Error{Sent: true, Status: n.status}
	var b struct {
		Code    int             `json:"code"`
		Message *string         `json:"message"`
		After   float64         `json:"retry_after"`
		Global  bool            `json:"global"`
		Errors  json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(n.body, &b) != nil || b.Message == nil {
		e.text = fmt.Sprintf("answer with status %d is not from Discord's API", n.status)
		if n.status == http.StatusTooManyRequests { // the network edge answers like this when it bans an IP address
			e.After, e.Global = max(seconds(n.header.Get("Retry-After")), banLeast), true
		}
		return e
	}
	e.API, e.Code, e.Global = true, b.Code, b.Global
	e.text = fmt.Sprintf("%d %s (%d)", n.status, *b.Message, b.Code)
	if n.status == http.StatusTooManyRequests {
		if e.After = span(b.After); e.After == 0 {
			e.After = seconds(n.header.Get("Retry-After"))
		}
	}
	if len(b.Errors) > 0 {
		var short bytes.Buffer
		if json.Compact(&short, b.Errors) == nil {
			e.Detail = strings.ToLower(short.String())
		}
	}
	return e
}

const (
	// banLeast is how long no call is made after an answer that bans the IP
	// address without a duration.
	banLeast = time.Minute
	// maxLimits limits the number of remembered empty buckets.
	maxLimits = 1024
)

// limits records which rate-limit buckets Discord has reported as empty, and
// until when. Calls are not delayed before such a report.
type limits struct {
	mu      sync.Mutex // guards the fields below
	global  time.Time
	buckets map[string]time.Time
}

// closed returns the error if a call must not be made now, nil if it may be
// made.
func (l *limits) closed(bucket string, now time.Time) *Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, global := l.global, true
	if b := l.buckets[bucket]; bucket != "" && b.After(until) {
		until, global = b, false
	}
	if !until.After(now) {
		return nil
	}
	after := until.Sub(now)
	return &Error{
		Status: http.StatusTooManyRequests, API: true, After: after, Global: global,
		text: fmt.Sprintf("not called: Discord has asked to wait %v more", after),
	}
}

func (l *limits) learn(n *note, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.status == http.StatusTooManyRequests {
		e := n.refusal()
		if e.Global {
			l.global = now.Add(e.After)
			return
		}
		l.set(n.bucket, now.Add(e.After), now)
		return
	}
	if n.header.Get("X-Ratelimit-Remaining") == "0" {
		if d := seconds(n.header.Get("X-Ratelimit-Reset-After")); d > 0 {
			l.set(n.bucket, now.Add(d), now)
		}
	}
}

func (l *limits) set(bucket string, until, now time.Time) {
	if bucket == "" {
		return
	}
	if len(l.buckets) >= maxLimits {
		for k, t := range l.buckets {
			if !t.After(now) {
				delete(l.buckets, k)
			}
		}
	}
	l.buckets[bucket] = until
}

// seconds parses a number of seconds, possibly fractional; 0 if invalid.
func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return span(f)
}

// span converts a server's number of seconds to a duration, 0 if it is
// implausible.
func span(f float64) time.Duration {
	if !(f > 0 && f < 1e6) {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}
