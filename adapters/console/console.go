// Package console implements the adapter that connects local terminals to the
// daemon. Its main types are Adapter and Client.
//
// The adapter is a hub: any number of clients attach to a conversation; each
// receives all of its messages and may write to it. A message counts as
// delivered once one client reports that it has shown it:
//
//	Send ──► queue of each client ──► Next (handed out) ──► Seen (receipt)
//	  │           │                        │
//	  │           └── left before ──► transient failure: certainly not shown
//	  └── nobody attached ──► transient failure  └── left before ──► uncertain:
//	                                       Find asks the clients that reattach
//
// A message that no client could show stays in the outbox. When a client
// attaches, the adapter calls OnAttach, and the owner of the outbox retries those
// messages.
package console

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
)

// Default is the conversation of a client that names none.
const Default = "local"

// User is the sender ID of all lines entered at a terminal.
const User = "local"

// The reasons for which a client is detached.
var (
	ErrClosed  = errors.New("console: the client has left")
	ErrSlow    = errors.New("console: the terminal does not take what is sent to it")
	ErrStopped = errors.New("console: the daemon stops")
)

const (
	// limit is the maximum length of one message in bytes.
	limit = 256 << 10
	// maxQueue limits the number of queued events per client.
	maxQueue = 256
	// maxKnown limits the number of messages remembered as shown by one client.
	maxKnown = 1024
	// editInterval is the minimum time between two edits of a preview.
	editInterval = 50 * time.Millisecond
)

// Options are the settings of an Adapter. OnAttach is required.
type Options struct {
	// OnAttach is called when a client has attached, with the address of its
	// conversation: messages that wait for that address can be delivered now. It
	// is called without locks, and Attach returns after it.
	OnAttach func(chat.Address)
	// Patience is how long a client may leave a message unshown before it is
	// detached; 0 means 5 s.
	Patience time.Duration
}

// An Adapter connects local terminals to conversations. It implements
// chat.Adapter, Editor, Deleter, Typer and Finder.
type Adapter struct {
	o     Options
	began time.Time
	ready chan struct{} // closed when sink is set

	timers sync.WaitGroup // pending calls of later; Run waits for them

	mu      sync.Mutex // guards the fields below, and the state of clients and pending events
	sink    chat.Sink
	ended   bool
	seq     uint64
	clients map[string]map[*Client]struct{} // by conversation
	missed  map[string]time.Time            // when a conversation last had no client for a message
}

var _ interface {
	chat.Adapter
	chat.Editor
	chat.Deleter
	chat.Typer
	chat.Finder
} = (*Adapter)(nil)

// New returns an adapter to which clients may attach at once. Their lines are
// accepted once Run was called.
func New(o Options) *Adapter {
	o.Patience = cmp.Or(max(o.Patience, 0), 5*time.Second)
	return &Adapter{
		o: o, began: time.Now(), ready: make(chan struct{}),
		clients: make(map[string]map[*Client]struct{}), missed: make(map[string]time.Time),
	}
}

// Address returns the address of the conversation of that name.
func Address(conversation string) chat.Address {
	return chat.Address{Platform: chat.Console, Kind: chat.DM, Chat: conversation}
}

// Run accepts the lines of clients until ctx ends; then it detaches all clients.
// It can be called once.
func (a *Adapter) Run(ctx context.Context, sink chat.Sink) error {
	a.mu.Lock()
	if a.sink != nil {
		a.mu.Unlock()
		return errors.New("console: adapter is already running")
	}
	a.sink = sink
	close(a.ready)
	a.mu.Unlock()
	<-ctx.Done()
	a.mu.Lock()
	a.ended = true
	for _, cs := range a.clients {
		for c := range cs {
			a.detachLocked(c, ErrStopped)
		}
	}
	a.mu.Unlock()
	a.timers.Wait()
	return nil
}

func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{
		MaxTextSize: limit, TextSize: func(r chat.RichText) int { return len(r.Text) },
		EditInterval: editInterval, CanFind: true,
	}
}

// Health implements chat.Adapter. The state does not depend on a connection:
// there is none to lose.
func (a *Adapter) Health() chat.Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := chat.Health{State: chat.Connected, Since: a.began, LastContact: time.Now(), Name: Default}
	switch {
	case a.ended:
		h.State, h.Error = chat.Failed, "the daemon stops"
	case a.sink == nil:
		h.State = chat.Connecting
	}
	return h
}

// Attached returns the number of attached clients in all conversations.
func (a *Adapter) Attached() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, cs := range a.clients {
		n += len(cs)
	}
	return n
}

// Attach adds a client to a conversation. has lists messages that the client
// showed while it was attached earlier. The client stays attached until Close,
// until it is detached, or until the adapter stops; ctx limits only the call.
func (a *Adapter) Attach(ctx context.Context, conversation string, has ...string) (*Client, error) {
	conversation = cmp.Or(conversation, Default)
	if !word().MatchString(conversation) {
		return nil, fmt.Errorf("console: %q cannot name a conversation: use up to 64 letters, digits, - and _", conversation)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Client{a: a, name: conversation, poke: make(chan struct{}, 1), gone: make(chan struct{}), has: make(map[string]struct{})}
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return nil, ErrStopped
	}
	for _, id := range has {
		c.rememberLocked(id)
	}
	if a.clients[conversation] == nil {
		a.clients[conversation] = make(map[*Client]struct{})
	}
	a.clients[conversation][c] = struct{}{}
	if time.Since(a.missed[conversation]) < refusalDelay {
		// The row of a send that failed just now may not be stored yet.
		c.stopAgain = a.later(func() { a.o.OnAttach(Address(conversation)) })
	}
	delete(a.missed, conversation)
	a.mu.Unlock()
	a.o.OnAttach(Address(conversation))
	return c, nil
}

// refusalDelay is the maximum time until a failed send is stored in the outbox.
const refusalDelay = time.Second

// later calls f after refusalDelay, unless stop is called first. stop must be
// called at most once.
func (a *Adapter) later(f func()) (stop func()) {
	a.timers.Add(1)
	t := time.AfterFunc(refusalDelay, func() { defer a.timers.Done(); f() })
	return func() {
		if t.Stop() {
			a.timers.Done()
		}
	}
}

// detachLocked removes c from its conversation. Events that were handed out but
// not shown stay uncertain; events that were not handed out have certainly not
// been shown.
func (a *Adapter) detachLocked(c *Client, why error) {
	if c.reason != nil {
		return
	}
	c.reason = why
	close(c.gone)
	if c.stopAgain != nil {
		c.stopAgain()
	}
	delete(a.clients[c.name], c)
	if len(a.clients[c.name]) == 0 {
		delete(a.clients, c.name)
	}
	for _, it := range append(c.queue, c.handed...) {
		it.parcel.release()
	}
	c.queue, c.handed = nil, nil
}

// NewID returns a new ID for a line. A line that is repeated under its ID is
// accepted once.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return "l" + hex.EncodeToString(b[:])
}

// word matches what is valid in IDs and addresses.
var word = lazyregexp.New(`^[a-zA-Z0-9_-]{1,64}$`)

//go:embed hint.md
var hint string

// Profile returns the facts about the local terminals that other packages need. Only
// the operator can open the socket that they connect to.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Console, Name: "terminal",
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: chat.IsWord, Is: "id"},
		OwnerRule: "console", Unasked: true, Answers: true, Source: "the terminal of the machine that runs this agent",
		Hint: hint,
	}
}
