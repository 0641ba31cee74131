package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"hermesd/gateway/outbox"
	"hermesd/gateway/target"
)

// A Sender sends messages to chats outside of a turn.
type Sender interface {
	// Destinations returns the known targets.
	Destinations(ctx context.Context) ([]target.Info, error)
	// Send stores a message and returns its outbox rows. The files of m are paths
	// that Keep returned.
	Send(ctx context.Context, m Message) ([]outbox.Row, error)
	// Keep stores a file for a message.
	Keep(ctx context.Context, name string, from io.Reader) (path string, err error)
}

// A Message is an outgoing message.
type Message struct {
	To    string `json:"to"`   // targets, separated by commas
	Text  string `json:"text"` // Markdown
	Files []File `json:"files,omitempty"`
}

// A File is a file that Keep stored.
type File struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// Size limits of bodies that may be larger than maxBody.
const (
	maxMessage = 256 << 10
	maxFile    = 2 << 30 // platforms accept less, which Keep reports
)

// bodyLimit returns the size limit of the body of a request to path, in bytes.
func bodyLimit(path string) int64 {
	switch path {
	case "/send":
		return maxMessage
	case "/files":
		return maxFile
	}
	return maxBody
}

func (h *Handler) destinations(r *http.Request) (any, error) {
	return forSender(list(h.opts.Daemon.Sender.Destinations(r.Context())))
}

func (h *Handler) keep(r *http.Request) (any, error) {
	path, err := h.opts.Daemon.Sender.Keep(r.Context(), r.FormValue("name"), r.Body)
	return forSender(path, err)
}

func (h *Handler) send(r *http.Request) (any, error) {
	var m Message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, &Error{http.StatusConflict, "the message is too long; send it as a file"}
		}
		return nil, &Error{http.StatusConflict, fmt.Sprintf("the message cannot be read: %v", err)}
	}
	rows, err := h.opts.Daemon.Sender.Send(context.WithoutCancel(r.Context()), m)
	return forSender(Outbox{Rows: rows}, err)
}

// forSender makes every error one that is shown to the sender.
func forSender(v any, err error) (any, error) {
	if err != nil {
		err = &Error{http.StatusConflict, err.Error()}
	}
	return v, err
}

// Destinations returns the targets that messages can be sent to.
func (c *Client) Destinations(ctx context.Context) ([]target.Info, error) {
	return get[[]target.Info](ctx, c, "/destinations", nil)
}

// Keep uploads a file for a message and returns its path on the daemon's side.
func (c *Client) Keep(ctx context.Context, name string, from io.Reader) (path string, err error) {
	err = c.exchange(ctx, http.MethodPost, "/files?"+url.Values{"name": {name}}.Encode(), from, &path)
	return path, err
}

// Send sends a message and returns its rows when each is sent or dead, or after
// wait.
func (c *Client) Send(ctx context.Context, m Message, wait time.Duration) ([]outbox.Row, error) {
	out, err := send[Outbox](ctx, c, "/send", m)
	if err != nil {
		return nil, err
	}
	late := time.After(wait)
	for pause := 50 * time.Millisecond; wait > 0; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return out.Rows, ctx.Err()
		case <-late:
			return out.Rows, nil
		case <-time.After(pause):
		}
		open := false
		for i, r := range out.Rows {
			if r.Terminal() {
				continue
			}
			if r, err = c.Row(ctx, r.ID.String()); err != nil {
				return out.Rows, err
			}
			out.Rows[i] = r
			open = open || !r.Terminal()
		}
		if !open {
			break
		}
	}
	return out.Rows, nil
}
