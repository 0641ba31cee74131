// Package apiclient carries the calls of a Bot API client so that it is known of
// each that failed whether the server can have it, and so that no error shows
// the token.
package apiclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"hermesd/adapters/internal/transport"
)

// maxAnswer bounds what is read of one answer of the Bot API.
const maxAnswer = 32 << 20

// smallBody is how much of a request is gathered so that it can leave with its
// length, and again on a fresh connection if an idle one turns out dead.
const smallBody = 128 << 10

// An envelope is the outside of every answer of the Bot API.
type envelope struct {
	OK          *bool           `json:"ok"`
	Result      json.RawMessage `json:"result,omitempty"`
	ErrorCode   int             `json:"error_code,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  struct {
		RetryAfter      int   `json:"retry_after,omitempty"`
		MigrateToChatID int64 `json:"migrate_to_chat_id,omitempty"`
	} `json:"parameters,omitzero"`
}

// An Error is a call that ended without an answer that the library has a type
// for. Its text never holds the token.
type Error struct {
	// Sent: the whole request may have reached the server.
	Sent bool
	// Status is the HTTP status or error code of the answer; 0: none came.
	Status int
	// API: the answer came from the Bot API itself and not from something in
	// between.
	API bool
	// MovedTo is the id of the supergroup that the chat has become; 0: none.
	MovedTo int64
	text    string
	err     error // cause, without any URL; may be nil
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.err }

// A Client carries the library's calls. It knows of each call that failed
// whether the request can have reached the server, keeps the token out of
// errors, and reduces the answer to a send to the message's id: what else
// Telegram tells of a sent message (it may quote a foreign one) must not make
// it look unsent.
type Client struct {
	RT    http.RoundTripper
	Token string
}

// Do implements the library's HttpClient.
func (w *Client) Do(req *http.Request) (*http.Response, error) {
	req, p, err := track(req)
	if err != nil {
		return nil, &Error{text: "prepare request: " + w.Mask(err.Error()), err: err}
	}
	resp, err := (&http.Client{Transport: w.RT, CheckRedirect: transport.NoRedirect}).Do(req)
	if err != nil {
		return nil, w.lost(p.reached(), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, w.lost(true, err)
	}
	var env envelope
	if err := json.Unmarshal(body, &env); err != nil || env.OK == nil {
		return nil, &Error{Sent: true, Status: resp.StatusCode, text: fmt.Sprintf("answer with status %d is not from the Bot API", resp.StatusCode)}
	}
	moved := env.Parameters.MigrateToChatID // the library has an int for it, of 32 bits on some machines
	if !*env.OK && (moved != 0 || !libraryKnows(env.ErrorCode)) {
		return nil, &Error{
			Sent: true, Status: env.ErrorCode, API: true, MovedTo: moved,
			text: w.Mask(fmt.Sprintf("%d %s", env.ErrorCode, env.Description)),
		}
	}
	if method := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]; *env.OK && makesMessage(method) {
		body = slim(env, body)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	return resp, nil
}

// lost makes the error of a call to which no whole answer came.
func (w *Client) lost(sent bool, err error) *Error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // its URL holds the token
	}
	return &Error{Sent: sent, text: w.Mask(err.Error()), err: err}
}

// Mask returns s without the token.
func (w *Client) Mask(s string) string {
	s = strings.ReplaceAll(s, w.Token, "***")
	return strings.ReplaceAll(s, url.PathEscape(w.Token), "***")
}

// libraryKnows reports whether the library turns an error code into a value
// that can be told from others.
func libraryKnows(code int) bool {
	switch code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return false
}

func makesMessage(method string) bool {
	m := strings.ToLower(method)
	return strings.HasPrefix(m, "send") && m != "sendchataction" || m == "editmessagetext"
}

// slim reduces the result of a send to the message's id.
func slim(env envelope, body []byte) []byte {
	var m struct {
		ID int `json:"message_id"`
	}
	if json.Unmarshal(env.Result, &m) != nil || m.ID == 0 {
		return body
	}
	return fmt.Appendf(nil, `{"ok":true,"result":{"message_id":%d}}`, m.ID)
}

// A passage knows how far one request can have come. The hooks of net/http
// that fire after a write fire too late: between the write and the hook a
// request can be cut off that the server has whole. So it goes by what happens
// before: a connection was given to the request, and the last byte of its body
// was handed out. While either is missing no server can have the request.
type passage struct {
	asked  atomic.Bool // the transport tells of its connections
	joined atomic.Bool // the request was given a connection
	done   atomic.Bool // the body was handed out to its end
}

// reached reports whether the server may have the whole request.
func (p *passage) reached() bool {
	return p.done.Load() && (p.joined.Load() || !p.asked.Load())
}

// track makes p follow req. A small request is gathered, so that it leaves in
// one piece, and again on a fresh connection if an idle one turns out dead.
func track(req *http.Request) (*http.Request, *passage, error) {
	p := new(passage)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { p.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { p.joined.Store(true) },
	}))
	if req.Body == nil {
		p.done.Store(true)
		return req, p, nil
	}
	head, err := io.ReadAll(io.LimitReader(req.Body, smallBody))
	if err != nil {
		return nil, nil, err
	}
	if len(head) == smallBody {
		all := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(head), req.Body), 64<<10)
		req.Body = &trackedBody{r: all, c: req.Body, p: p}
		return req, p, nil
	}
	_ = req.Body.Close()
	p.done.Store(true)
	req.ContentLength = int64(len(head))
	req.Body = io.NopCloser(bytes.NewReader(head))
	req.GetBody = func() (io.ReadCloser, error) {
		p.joined.Store(false) // asked for only when nothing was written
		return io.NopCloser(bytes.NewReader(head)), nil
	}
	return req, p, nil
}

// A trackedBody knows whether its last byte has been handed out.
type trackedBody struct {
	r *bufio.Reader
	c io.Closer
	p *passage
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == nil {
		if _, e := b.r.Peek(1); e == io.EOF {
			b.p.done.Store(true)
		}
	}
	return n, err
}

func (b *trackedBody) Close() error { return b.c.Close() }
