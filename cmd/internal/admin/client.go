package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// ErrNoDaemon reports that no daemon serves a home directory.
var ErrNoDaemon = errors.New("no daemon is running")

// A SilentError reports that a process has the control socket open but does not
// respond on it.
type SilentError struct {
	Path string // of the socket
	Err  error
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("the daemon at %s does not answer (%v); look at its log, or stop it", e.Path, e.Err)
}

func (e *SilentError) Unwrap() error { return e.Err }

// dialWait limits the time until a daemon responds for the first time.
const dialWait = 3 * time.Second

// A Client sends requests to a Handler. It is safe for concurrent use. Its methods
// return an *Error if the daemon responded with an error.
type Client struct {
	http *http.Client
	end  func(context.Context) error
}

// Dial returns a client of the daemon that serves home. The error is
// ErrNoDaemon if there is none, a *SilentError if it does not respond.
func Dial(ctx context.Context, home string) (*Client, error) {
	path := locate(home)
	if len(path) > maxPath+7 {
		return nil, ErrNoDaemon // such a socket cannot exist
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoDaemon
	}
	d := &net.Dialer{Timeout: dialWait}
	t := &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
		ResponseHeaderTimeout: 20 * time.Second,
	}
	c := &Client{http: &http.Client{Transport: t}, end: func(context.Context) error { return nil }}
	probe, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	_, err := c.Status(probe)
	var answer *Error
	switch {
	case err == nil, errors.As(err, &answer):
		return c, nil
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		err = ErrNoDaemon
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		err = &SilentError{path, errors.Unwrap(err)}
	}
	t.CloseIdleConnections()
	return nil, err
}

// Close releases the connections. If the handler is in this process, it is closed
// too, which ends attached chats.
func (c *Client) Close(ctx context.Context) error {
	c.http.CloseIdleConnections()
	return c.end(ctx)
}

// maxAnswer limits the size of a response in bytes.
const maxAnswer = 256 << 20

// ask sends a request without a body and decodes the response. The segments of
// path are escaped.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, into any) error {
	return c.exchange(ctx, method, path+"?"+query.Encode(), http.NoBody, into)
}

// exchange sends a request and decodes the response. target is the path with the query,
// both escaped.
func (c *Client) exchange(ctx context.Context, method, target string, body io.Reader, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://hermesd"+target, body)
	if err != nil {
		return fmt.Errorf("ask the daemon: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the daemon: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the daemon: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.StatusCode, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the daemon's answer cannot be read; is it of another version? %w", err)
	}
	return nil
}

func refusal(code int, raw []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(raw, &said) != nil || said.Error == "" {
		said.Error = "the daemon answers " + http.StatusText(code) + "; is it of another version?"
	}
	return &Error{code, said.Error}
}

// Status returns the live state of the daemon.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.ask(ctx, http.MethodGet, "/status", nil, &s)
	return s, err
}

// Why returns the histories of the messages with an ID.
func (c *Client) Why(ctx context.Context, id string) ([]inbox.MessageHistory, error) {
	var chains []inbox.MessageHistory
	err := c.ask(ctx, http.MethodGet, "/why", url.Values{"id": {id}}, &chains)
	return chains, err
}

// Outbox returns the rows that are not sent; with all, also those that are.
func (c *Client) Outbox(ctx context.Context, all bool) (Outbox, error) {
	var list Outbox
	err := c.ask(ctx, http.MethodGet, "/outbox", url.Values{"all": {strconv.FormatBool(all)}}, &list)
	return list, err
}

// Row returns one row of the outbox.
func (c *Client) Row(ctx context.Context, id string) (outbox.Row, error) {
	var row outbox.Row
	err := c.ask(ctx, http.MethodGet, "/outbox/"+url.PathEscape(id), nil, &row)
	return row, err
}

// Retry makes a row due now.
func (c *Client) Retry(ctx context.Context, id string) (RowChange, error) {
	var done RowChange
	err := c.ask(ctx, http.MethodPost, "/outbox/"+url.PathEscape(id)+"/retry", nil, &done)
	return done, err
}

// Drop stops retrying a row.
func (c *Client) Drop(ctx context.Context, id string) (RowChange, error) {
	var done RowChange
	err := c.ask(ctx, http.MethodPost, "/outbox/"+url.PathEscape(id)+"/drop", nil, &done)
	return done, err
}

// Sessions returns the newest sessions, at most most; 0 means the default.
func (c *Client) Sessions(ctx context.Context, most int) ([]session.Record, error) {
	q := url.Values{}
	if most > 0 {
		q.Set("limit", strconv.Itoa(most))
	}
	var list []session.Record
	err := c.ask(ctx, http.MethodGet, "/sessions", q, &list)
	return list, err
}

// Session returns a session and a page of its messages, from index from on. id
// may be a part of the session's id.
func (c *Client) Session(ctx context.Context, id string, from int) (Session, error) {
	return c.session(ctx, id, url.Values{"from": {strconv.Itoa(from)}})
}

// SessionWithArchive is like Session but includes the archived messages.
func (c *Client) SessionWithArchive(ctx context.Context, id string, from int) (Session, error) {
	return c.session(ctx, id, url.Values{"from": {strconv.Itoa(from)}, "all": {"1"}})
}

func (c *Client) session(ctx context.Context, id string, q url.Values) (Session, error) {
	var s Session
	err := c.ask(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id), q, &s)
	return s, err
}

// Prompt returns the cached prompt of a session. id may be a title or a part of
// the session ID, also in the methods below.
func (c *Client) Prompt(ctx context.Context, id string) (Prompt, error) {
	var p Prompt
	err := c.ask(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id)+"/prompt", nil, &p)
	return p, err
}

// Trace returns the model calls of a session.
func (c *Client) Trace(ctx context.Context, id string) (Trace, error) {
	var t Trace
	err := c.ask(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id)+"/calls", nil, &t)
	return t, err
}

// Diff compares the prefixes of calls n and m of a session.
func (c *Client) Diff(ctx context.Context, id string, n, m int) (Diff, error) {
	var d Diff
	q := url.Values{"n": {strconv.Itoa(n)}, "m": {strconv.Itoa(m)}}
	err := c.ask(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id)+"/diff", q, &d)
	return d, err
}

// Usage returns the tokens and costs of calls since a time, grouped by session,
// platform or model. The zero time means all calls.
func (c *Client) Usage(ctx context.Context, since time.Time, by string) (Usage, error) {
	q := url.Values{"by": {by}}
	if !since.IsZero() {
		q.Set("since", since.Format(time.RFC3339))
	}
	var u Usage
	err := c.ask(ctx, http.MethodGet, "/usage", q, &u)
	return u, err
}
