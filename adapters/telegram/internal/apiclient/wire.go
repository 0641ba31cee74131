// Package apiclient sends the HTTP requests of a Bot API client. For each failed
// call it records whether the server may have received the request, and it keeps
// the token out of all errors.
package apiclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
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
)

// maxAnswer limits how many bytes of one answer are read.
const maxAnswer = 32 << 20

// An envelope is the outer object of every answer of the Bot API.
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

// An Error is a call that ended without an answer for which the library has an
// error type. Its text never contains the token.
type Error struct {
	// Sent is true if the whole request may have reached the server.
	Sent bool
	// Status is the HTTP status or error code of the answer; 0 if there was none.
	Status int
	// API is true if the answer came from the Bot API itself and not from an
	// intermediary.
	API bool
	// MovedTo is the ID of the supergroup to which the chat was migrated; 0 if
	// none.
	MovedTo int64
	text    string
	err     error // cause, without any URL; may be nil
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.err }

// A Client sends the library's requests. For each failed call it records whether
// the request may have reached the server. It keeps the token out of errors, and
// reduces the answer to a send to the message's ID: anything else in it (it may
// quote another user's message) must not make the message look unsent.
type Client struct {
	RT    http.RoundTripper
	Token string
}

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
	moved := env.Parameters.MigrateToChatID // the library decodes it into an int, which has 32 bits on some platforms
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

// lost returns the error of a call without a complete answer.
func (w *Client) lost(sent bool, err error) *Error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // its URL contains the token
	}
	return &Error{Sent: sent, text: w.Mask(err.Error()), err: err}
}

// Mask returns s with the token replaced by "***".
func (w *Client) Mask(s string) string {
	s = strings.ReplaceAll(s, w.Token, "***")
	return strings.ReplaceAll(s, url.PathEscape(w.Token), "***")
}

// libraryKnows reports whether the library turns an error code into a
// distinguishable error value.
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

// slim reduces the result of a send to the message's ID.
func slim(env envelope, body []byte) []byte {
	var m struct {
		ID int `json:"message_id"`
	}
	if json.Unmarshal(env.Result, &m) != nil || m.ID == 0 {
		return body
	}
	return fmt.Appendf(nil, `{"ok":true,"result":{"message_id":%d}}`, m.ID)
}

// A passage tracks how far one request can have come. The hooks of net/http that
// run after a write run too late: a request can be canceled between the write
// and the hook although the server has all of it. Therefore passage uses what
// happens before: the request was given a connection, and the last byte of its
// body was read. As long as one of these is missing, no server can have the
// request.
type passage struct {
	asked  atomic.Bool // the transport reports its connections
	joined atomic.Bool // the request was given a connection
	done   atomic.Bool // the body was read to its end
}

// reached reports whether the server may have the whole request.
func (p *passage) reached() bool {
	return p.done.Load() && (p.joined.Load() || !p.asked.Load())
}

// track makes a passage follow req, whose body is in memory or, with an upload,
// in a file. The body is sent with its length, and again on a new connection if
// an idle one turns out dead.
func track(req *http.Request) (*http.Request, *passage, error) {
	p := new(passage)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { p.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { p.joined.Store(true) },
	}))
	if req.Body == nil || req.Body == http.NoBody {
		p.done.Store(true)
		return req, p, nil
	}
	form, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, nil, err
	}
	_ = req.Body.Close()
	open := func() io.ReadCloser { return io.NopCloser(bytes.NewReader(form)) }
	req.ContentLength = int64(len(form))
	if u, ok := req.Context().Value(uploadKey{}).(*Upload); ok {
		before, after, found := bytes.Cut(form, []byte(u.marker))
		if !found {
			return nil, nil, errors.New("the file is not part of the request")
		}
		open = func() io.ReadCloser { return u.body(before, after, p) }
		req.ContentLength += u.size - int64(len(u.marker))
	} else {
		p.done.Store(true) // it is written at once
	}
	req.Body = open()
	req.GetBody = func() (io.ReadCloser, error) {
		p.joined.Store(false) // called only when nothing was written
		return open(), nil
	}
	return req, p, nil
}

// A trackedBody records when its last byte has been read.
type trackedBody struct {
	r *bufio.Reader
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

func (b *trackedBody) Close() error { return nil }

// An Upload is a file that is sent from where it is stored. The library holds the
// whole body of a request in memory, and would do so with the file; therefore it
// gets a short marker as the file's content, for which the Client sends the file.
type Upload struct {
	content io.ReaderAt
	size    int64
	marker  string
}

type uploadKey struct{}

// WithUpload returns a context for the one request that contains the upload's
// Reader as the content of a file of size bytes.
func WithUpload(ctx context.Context, content io.ReaderAt, size int64) (context.Context, *Upload) {
	u := &Upload{content: content, size: size, marker: "hermesd-upload-" + rand.Text()}
	return context.WithValue(ctx, uploadKey{}, u), u
}

// Reader returns what the library gets as the content of the file.
func (u *Upload) Reader() io.Reader { return strings.NewReader(u.marker) }

// body returns the body of a request with the file between two parts.
func (u *Upload) body(before, after []byte, p *passage) io.ReadCloser {
	file := io.NewSectionReader(u.content, 0, u.size)
	all := io.MultiReader(bytes.NewReader(before), file, bytes.NewReader(after))
	return &trackedBody{r: bufio.NewReaderSize(all, 64<<10), p: p}
}

// A Refusal is the Bot API's own error response to a poll.
type Refusal struct {
	Code  int
	After time.Duration // requested delay; 0: none
	Text  string
}

func (e *Refusal) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Text) }

// Poll makes one getUpdates call at a server with the parameters form and returns
// the undecoded updates. Its error is a *Refusal or an *Error.
func (w *Client) Poll(ctx context.Context, server string, form url.Values) ([]json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/bot"+w.Token+"/getUpdates", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("create poll request: invalid address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := (&http.Client{Transport: w.RT, CheckRedirect: transport.NoRedirect}).Do(req)
	if err != nil {
		return nil, w.lost(true, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, w.lost(true, err)
	}
	return updates(resp.StatusCode, body)
}

func updates(status int, body []byte) ([]json.RawMessage, error) {
	var env envelope
	if err := json.Unmarshal(body, &env); err != nil || env.OK == nil {
		return nil, &Error{Status: status, text: fmt.Sprintf("answer with status %d is not from the Bot API", status)}
	}
	if !*env.OK {
		return nil, &Refusal{Code: env.ErrorCode, After: time.Duration(env.Parameters.RetryAfter) * time.Second, Text: env.Description}
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(env.Result, &raws); err != nil {
		return nil, &Error{Status: status, text: "poll result is not a list"}
	}
	return raws, nil
}
