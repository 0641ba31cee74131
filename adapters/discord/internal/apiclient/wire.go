// Package apiclient carries the calls of Discord's REST API so that it is known of
// each that failed whether the server can have it.
//
// The calls go through the library's session, which knows how they look. What
// the library would make of the answers is not used: it sleeps where a rate
// limit is near, waits out a 429 without listening to anybody, and tries a 502
// again. A transport below it notes what came back, and that decides.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// Origin is where Discord's API is.
const Origin = "https://discord.com"

// A Client makes the calls of one account. Its methods may be called side by
// side; none of them waits for a rate limit.
type Client struct {
	token secret.Value
	rt    *carrier
	rest  *discordgo.Session
}

// New returns a client whose calls go to base, which stands in for Origin,
// over rt.
func New(token secret.Value, base string, rt http.RoundTripper) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("api_url: not a URL")
	}
	c := &Client{token: token, rt: &carrier{base: u, rt: rt, limits: newLimits()}}
	if c.rest, err = c.Session(context.Background()); err != nil {
		return nil, err
	}
	c.rest.Client.Timeout = callLimit
	return c, nil
}

// Session returns a new session of the library whose own calls end with ctx.
// It keeps no state, says nothing, and neither waits nor reconnects by itself.
func (c *Client) Session(ctx context.Context) (*discordgo.Session, error) {
	s, err := discordgo.New("Bot " + c.token.Reveal())
	if err != nil {
		return nil, errors.New("the library refuses the token") // its text may show it
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
	// callLimit bounds every call; callers set shorter limits by their context.
	callLimit = 6 * time.Minute
	// askLimit bounds the calls that the library makes by itself.
	askLimit = 15 * time.Second
)

// A within gives a context to calls of the library that have none.
type within struct {
	ctx context.Context
	rt  http.RoundTripper
}

func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.ctx.Done() == nil {
		return w.rt.RoundTrip(r)
	}
	return w.rt.RoundTrip(r.WithContext(w.ctx)) // the library gives none, so nothing is lost
}

// A Call is one request.
type Call struct {
	Method string
	Path   string // below the version of the API
	Body   any    // as JSON; nil: none
	File   *Upload
	// Bucket is the unit to which a rate limit applies that this call hears of.
	Bucket string
}

// An Error is a call without the result that was asked for. Its text never
// holds the token, nor an address, which may hold one.
type Error struct {
	// Sent: the request may have reached the server.
	Sent bool
	// Status is the HTTP status of the answer; 0: none came.
	Status int
	// API: the answer came from Discord's API and not from something in between.
	API bool
	// Code is Discord's own code of the refusal; 0: none.
	Code int
	// After is how long Discord asks to wait, Global for what.
	After  time.Duration
	Global bool
	// Detail is what Discord finds wrong with which field, in lower case.
	Detail string
	text   string
	err    error
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.err }

// Code returns Discord's own code of a refusal, 0 if err is none.
func Code(err error) int {
	var we *Error
	if errors.As(err, &we) && we.API {
		return we.Code
	}
	return 0
}

// Do makes one call and decodes the result into out, if that is not nil. Its
// error is an *Error, or says that the result cannot be understood.
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
		n.json, kind, body = body, call.File.contentType(), []byte{}
	}
	ctx = context.WithValue(ctx, noteKey{}, n)
	// A limiter of its own: the library's would sleep.
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

// result says what came of the call that n noted.
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
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		if n.err != nil {
			err = n.err
		}
		return nil, Lost(n.joined.Load(), err)
	}
	return nil, n.refusal()
}

// Lost returns the error of a call to which no whole answer came. sent says
// that the server may have it.
func Lost(sent bool, err error) *Error { return &Error{Sent: sent, text: err.Error(), err: err} }

// refusal makes an Error of an answer that is no result.
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
		if n.status == http.StatusTooManyRequests { // the edge of the network answers so when it bans an address
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
