package admin

import (
	"bytes"
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

	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
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
// ErrNoDaemon if there is none, a *SilentError if it does not respond, and
// fs.ErrPermission if the home is another user's.
func Dial(ctx context.Context, home string) (*Client, error) {
	path := locate(home)
	if len(path) > maxPath+7 {
		return nil, ErrNoDaemon // such a socket cannot exist
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
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
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("this user may not open %s; run the command as the user of that home directory, or use --home: %w", path, fs.ErrPermission)
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

// get sends a GET request and returns the decoded response. The segments of path are
// escaped.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	err = c.exchange(ctx, http.MethodGet, path+"?"+query.Encode(), http.NoBody, &v)
	return v, err
}

// post is like get with a POST request.
func post[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	err = c.exchange(ctx, http.MethodPost, path+"?"+query.Encode(), http.NoBody, &v)
	return v, err
}

// send is like post with a value as the body, in JSON.
func send[T any](ctx context.Context, c *Client, path string, body any) (v T, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return v, fmt.Errorf("encode: %w", err)
	}
	err = c.exchange(ctx, http.MethodPost, path, bytes.NewReader(raw), &v)
	return v, err
}

// exchange sends a request like request and decodes the response.
func (c *Client) exchange(ctx context.Context, method, target string, body io.Reader, into any) error {
	raw, err := c.request(ctx, method, target, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the daemon's answer cannot be read; is it of another version? %w", err)
	}
	return nil
}

// request sends a request and returns the response. target is the path with the query,
// both escaped.
func (c *Client) request(ctx context.Context, method, target string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://hermesd"+target, body)
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp.StatusCode, raw)
	}
	return raw, nil
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
	return get[Status](ctx, c, "/status", nil)
}

// Why returns the histories of the messages with an ID.
func (c *Client) Why(ctx context.Context, id string) ([]store.MessageHistory, error) {
	return get[[]store.MessageHistory](ctx, c, "/why", url.Values{"id": {id}})
}

// Outbox returns the rows that are not sent; with all, also those that are.
func (c *Client) Outbox(ctx context.Context, all bool) (Outbox, error) {
	return get[Outbox](ctx, c, "/outbox", url.Values{"all": {strconv.FormatBool(all)}})
}

// Row returns one row of the outbox.
func (c *Client) Row(ctx context.Context, id string) (outbox.Row, error) {
	return get[outbox.Row](ctx, c, "/outbox/"+url.PathEscape(id), nil)
}

// Retry makes a row due now.
func (c *Client) Retry(ctx context.Context, id string) (RowChange, error) {
	return post[RowChange](ctx, c, "/outbox/"+url.PathEscape(id)+"/retry", nil)
}

// Drop stops retrying a row.
func (c *Client) Drop(ctx context.Context, id string) (RowChange, error) {
	return post[RowChange](ctx, c, "/outbox/"+url.PathEscape(id)+"/drop", nil)
}

// Sessions returns the newest sessions, at most most; 0 means the default.
func (c *Client) Sessions(ctx context.Context, most int) ([]session.Record, error) {
	q := url.Values{}
	if most > 0 {
		q.Set("limit", strconv.Itoa(most))
	}
	return get[[]session.Record](ctx, c, "/sessions", q)
}

// Session returns a session and a page of its messages, from index from on; with all,
// also archived ones. id may be a part of the session's id.
func (c *Client) Session(ctx context.Context, id string, from int, all bool) (Session, error) {
	q := url.Values{"from": {strconv.Itoa(from)}}
	if all {
		q.Set("all", "1")
	}
	return get[Session](ctx, c, sessionPath(id, ""), q)
}

// Prompt returns the cached prompt of a session. id may be a title or a part of
// the session ID, also in the methods below.
func (c *Client) Prompt(ctx context.Context, id string) (Prompt, error) {
	return get[Prompt](ctx, c, sessionPath(id, "/prompt"), nil)
}

// Trace returns the model calls of a session.
func (c *Client) Trace(ctx context.Context, id string) (Trace, error) {
	return get[Trace](ctx, c, sessionPath(id, "/calls"), nil)
}

// Diff compares the prefixes of calls n and m of a session.
func (c *Client) Diff(ctx context.Context, id string, n, m int) (Diff, error) {
	return get[Diff](ctx, c, sessionPath(id, "/diff"), url.Values{"n": {strconv.Itoa(n)}, "m": {strconv.Itoa(m)}})
}

// Usage returns the tokens and costs of calls since a time, grouped by session,
// platform or model. The zero time means all calls.
func (c *Client) Usage(ctx context.Context, since time.Time, by string) (Usage, error) {
	q := url.Values{"by": {by}}
	if !since.IsZero() {
		q.Set("since", since.Format(time.RFC3339))
	}
	return get[Usage](ctx, c, "/usage", q)
}
