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

// A Kind says what an event tells a client.
type Kind string

// The kinds of event.
const (
	Message       Kind = "message" // the daemon says something
	Edit          Kind = "edit"    // a message has a new text; show it if it is unknown
	Delete        Kind = "delete"  // a message is taken back
	Typing        Kind = "typing"  // an answer is being written; holds for some seconds
	OtherTerminal Kind = "said"    // somebody spoke at another terminal
)

// An Event is one thing for a client to show.
type Event struct {
	Seq     uint64        `json:"seq,omitempty"` // for Seen
	Kind    Kind          `json:"kind"`
	ID      string        `json:"id,omitempty"` // of the message
	Text    chat.RichText `json:"text,omitzero"`
	ReplyTo string        `json:"re,omitempty"`
	File    *chat.File    `json:"file,omitempty"`
	Quiet   bool          `json:"quiet,omitempty"`
	At      time.Time     `json:"at,omitzero"`
}

// maxLine is the greatest length of what can be said at once, in bytes.
const maxLine = 256 << 10

// ErrLine says that a line cannot be taken as it is; its text says why.
var ErrLine = errors.New("console: the line cannot be taken")

// A Client is one terminal in one conversation. One goroutine may call Next
// while others call the other methods.
type Client struct {
	a    *Adapter
	name string
	poke chan struct{} // says that queue is not empty
	gone chan struct{} // closed when the client is detached

	// What follows is guarded by Adapter.mu.
	queue  []item // not handed out
	handed []item // handed out and not shown, in order
	has    map[string]struct{}
	order  []string // of has, oldest first
	reason error    // set when detached

	stopAgain func() // nil unless OnAttach is due once more
}

type item struct {
	ev     Event
	parcel *pendingEvent // nil: nobody waits for it
}

// A pendingEvent is one event on its way to all clients of a conversation. It is
// guarded by Adapter.mu.
type pendingEvent struct {
	open   int // clients that have it in their hands or queues
	handed bool
	seen   bool
	over   bool
	done   chan struct{} // closed when it was seen or nobody can see it any more
}

func (p *pendingEvent) show() {
	if p == nil {
		return
	}
	p.seen = true
	p.leave()
}

func (p *pendingEvent) leave() {
	if p == nil {
		return
	}
	p.open--
	if !p.over && (p.seen || p.open <= 0) {
		p.over = true
		close(p.done)
	}
}

// Conversation returns the name of the conversation that the client is in.
func (c *Client) Conversation() string { return c.name }

// Next returns the next event, and counts it as handed out. It waits for one
// until ctx ends; once the client is detached it returns why.
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

// Seen says that the client has shown every event up to seq.
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

// Say speaks in the conversation. It returns once the line is on disk, with the
// id by which it is known; id "" stands for a new one. A line that is said
// again under its id is taken once.
func (c *Client) Say(ctx context.Context, id, text string) (string, error) {
	if id == "" {
		id = NewID()
	}
	switch {
	case !word(id):
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
		return "", fmt.Errorf("take the line: %w", err)
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

// rememberLocked notes that the client has shown message id.
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
