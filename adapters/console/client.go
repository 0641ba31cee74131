package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// A Kind is the type of an event for a client.
type Kind string

// The kinds of events.
const (
	Message       Kind = "message" // a message of the daemon
	Edit          Kind = "edit"    // a message has a new text; clients that do not know it show it
	Delete        Kind = "delete"  // a message was deleted
	Typing        Kind = "typing"  // an answer is being written; valid for some seconds
	OtherTerminal Kind = "said"    // a line was entered at another terminal
)

// An Event is an event for a client to show.
type Event struct {
	Seq     uint64        `json:"seq,omitempty"` // passed to Seen
	Kind    Kind          `json:"kind"`
	ID      string        `json:"id,omitempty"` // of the message
	Text    chat.RichText `json:"text,omitzero"`
	ReplyTo string        `json:"re,omitempty"`
	File    *chat.File    `json:"file,omitempty"`
	Quiet   bool          `json:"quiet,omitempty"`
	At      time.Time     `json:"at,omitzero"`
}

// maxLine is the maximum length of a line in bytes.
const maxLine = 256 << 10

// ErrLine is the error of a line that cannot be accepted; the text of the error
// says why.
var ErrLine = errors.New("console: the line cannot be taken")

// A Client is one terminal in one conversation. Next must be called by one
// goroutine at a time; the other methods may be called concurrently with it.
type Client struct {
	a    *Adapter
	name string
	poke chan struct{} // signals that queue is not empty
	gone chan struct{} // closed when the client is detached

	// The fields below are guarded by Adapter.mu.
	queue  []item // not handed out
	handed []item // handed out and not shown, in order
	has    map[string]struct{}
	order  []string // the IDs in has, oldest first
	reason error    // set when detached

	stopAgain func() // nil unless OnAttach is due once more
}

type item struct {
	ev     Event
	parcel *pendingEvent // nil if no sender waits for it
}

// A pendingEvent is one event on its way to all clients of a conversation. It is
// guarded by Adapter.mu.
type pendingEvent struct {
	open   int // number of clients that have it queued or handed out
	handed bool
	seen   bool
	over   bool
	done   chan struct{} // closed when it was shown, or no client can show it any more
}

func (p *pendingEvent) show() {
	if p == nil {
		return
	}
	p.seen = true
	p.release()
}

func (p *pendingEvent) release() {
	if p == nil {
		return
	}
	p.open--
	if !p.over && (p.seen || p.open <= 0) {
		p.over = true
		close(p.done)
	}
}

// Conversation returns the name of the client's conversation.
func (c *Client) Conversation() string { return c.name }

// Next returns the next event and marks it as handed out. It blocks until there
// is one or ctx ends; once the client is detached it returns the reason.
func (c *Client) Next(ctx context.Context) (Event, error) {
	for {
		c.a.mu.Lock()
		if c.reason != nil {
			defer c.a.mu.Unlock()
			return Event{}, c.reason
		}
		if len(c.queue) > 0 {
			it := c.queue[0]
			c.queue = c.queue[1:]
			if it.parcel != nil {
				it.parcel.handed = true
				c.handed = append(c.handed, it)
			}
			c.a.mu.Unlock()
			return it.ev, nil
		}
		c.a.mu.Unlock()
		select {
		case <-c.poke:
		case <-c.gone:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Seen records that the client has shown every event up to seq.
func (c *Client) Seen(seq uint64) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	for len(c.handed) > 0 && c.handed[0].ev.Seq <= seq {
		it := c.handed[0]
		c.handed = c.handed[1:]
		if it.ev.Kind != Delete {
			c.rememberLocked(it.ev.ID)
		}
		it.parcel.show()
	}
}

// Say sends a line to the conversation. It returns the line's ID once the line
// is on disk. An empty id means a new one. A line that is repeated under its ID
// is accepted once.
func (c *Client) Say(ctx context.Context, id, text string) (string, error) {
	if id == "" {
		id = NewID()
	}
	switch {
	case !word().MatchString(id):
		return "", fmt.Errorf("%w: its id is not a word", ErrLine)
	case strings.TrimSpace(text) == "":
		return "", fmt.Errorf("%w: it is empty", ErrLine)
	case len(text) > maxLine:
		return "", fmt.Errorf("%w: it has %d bytes, more than %d; put it into a file and name the file", ErrLine, len(text), maxLine)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%w: it is not UTF-8", ErrLine)
	}
	select {
	case <-c.a.ready:
	case <-c.gone:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	c.a.mu.Lock()
	sink, why := c.a.sink, c.reason
	c.a.mu.Unlock()
	if why != nil {
		return "", why
	}
	at := time.Now()
	err := sink.Accept(ctx, []chat.Inbound{{
		IdempotencyKey: "line:" + id, ID: id, Kind: chat.Message, Address: Address(c.name), SentAt: at, Text: text, Addressed: true,
		Sender: chat.Person{ID: User}, ChatName: "terminal",
	}})
	if err != nil {
		return "", fmt.Errorf("accept line: %w", err)
	}
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	for other := range c.a.clients[c.name] {
		if other != c {
			c.a.pushLocked(other, item{ev: Event{Kind: OtherTerminal, ID: id, Text: chat.PlainText(text), At: at}})
		}
	}
	return id, nil
}

// Close detaches the client. It may be called more than once.
func (c *Client) Close() {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.a.detachLocked(c, ErrClosed)
}

// rememberLocked records that the client has shown message id.
func (c *Client) rememberLocked(id string) {
	if _, ok := c.has[id]; ok || id == "" {
		return
	}
	c.has[id] = struct{}{}
	c.order = append(c.order, id)
	if len(c.order) > maxKnown {
		delete(c.has, c.order[0])
		c.order = c.order[1:]
	}
}
