// Package httpapi implements an HTTP API that is compatible with clients of
// OpenAI's Chat Completions: POST /v1/chat/completions and GET /v1/models, in
// addition to /healthz, /readyz and /metrics. Its main type is Adapter.
//
// A request becomes one chat.Inbound; Send and Edit pass its answer to the
// waiting request:
//
//	request ──► guard (host, origin, key, limits) ──► parse ──► exchange
//	                                                              │ one at a time per session
//	                            Accept (on disk) ◄────────────────┘
//	Send, Edit ──► exchange ──► every request that waits for it ──► written: receipt
//	   │               └── no request waits, the client gave no key ──► permanent failure
//	   └── no request waits, the client gave an Idempotency-Key ──► kept for a repeated request
//
// The daemon stores the conversation. A client that disconnects does not end its
// turn: the answer stays in the session.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// StoredMessage is what the store knows of a message that was accepted.
type StoredMessage struct {
	Accepted bool   // the key has been accepted before
	Ended    bool   // nothing more will come of it
	Text     string // the answer, "" if there is none
	Reason   string // without an answer: why, in words
}

// Options are what an Adapter works with besides its Config. Only Key is
// required.
type Options struct {
	// Key is what clients send as a bearer token.
	Key secret.Value
	// Model is the configured model's name, under which clients may also ask.
	Model string
	// Lookup tells what became of the message with an Inbound.Key. It ends the
	// waiting for turns that end without an answer, and answers for keys of an
	// earlier process. Nil: nothing is known.
	Lookup func(ctx context.Context, key string) (StoredMessage, error)
	// IsNewSession reports whether the session at an address has no messages yet. A
	// client's own copy of the conversation is taken over only then. Nil: never.
	IsNewSession func(ctx context.Context, at chat.Address) (bool, error)
	// StoreFile stores a file that came with a request, before the request counts as
	// accepted. Nil: files are refused.
	StoreFile func(ctx context.Context, f chat.File, content []byte) (chat.File, error)
	// Fetch gets what stands at an address from outside, through a client that
	// refuses private addresses. Nil: such addresses are refused.
	Fetch func(ctx context.Context, url string, limit int64) ([]byte, error)
	// Ready says whether the daemon can answer, and if not why, in words without
	// secrets. Nil: as soon as the API listens.
	Ready func() (ok bool, why string)
	// Accounts tells how the daemon's connections are, for /readyz.
	Accounts func() map[chat.Account]chat.Health
	// Metrics answers GET /metrics for clients that have MetricsKey, which opens
	// nothing else, or Key. Nil: there are none.
	Metrics    http.Handler
	MetricsKey secret.Value
	// Listen opens the socket; nil is net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// Drain is how long requests may still get their answers when Run's context
	// ends; 0 is 1 s.
	Drain time.Duration
	Log   *zap.Logger
}

const (
	headerTime  = 10 * time.Second // for a request's headers
	bodyTime    = time.Minute      // for its body
	writeTime   = 30 * time.Second // for each piece of an answer
	idleTime    = 2 * time.Minute
	keepAlive   = 10 * time.Second // between signs of life in a stream
	askAgain    = 5 * time.Second  // between questions to Lookup
	editPace    = 50 * time.Millisecond
	maxHeader   = 32 << 10
	maxKept     = 256  // exchanges that are kept for their keys
	maxHad      = 1024 // answers that are remembered as delivered
	textLimit   = 8 << 20
	defaultTime = time.Second
)

// An Adapter is the HTTP API.
type Adapter struct {
	cfg Config
	o   Options
	key [32]byte      // digest of the key
	sem chan struct{} // one place per running request

	began int64 // Unix time

	running sync.WaitGroup // tending goroutines

	mu        sync.Mutex // guards what follows
	sink      chat.Sink
	base      context.Context // of Run; nil before
	ended     bool            // no new requests
	health    chat.Health
	exchanges map[string]*exchange // by Inbound.ID
	kept      []string             // of those with keys, oldest first
	lines     map[string]*line     // by session
	had       map[string]struct{}  // ids of exchanges whose answer was written
	hadOrder  []string
}

var _ interface {
	chat.Adapter
	chat.Editor
	chat.Deleter
	chat.Finder
} = (*Adapter)(nil)

// New returns an adapter that serves when it runs. Its error is a
// *chat.ConfigError.
func New(c Config, o Options) (*Adapter, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, &chat.ConfigError{Platform: chat.HTTP, Reason: err.Error()}
	}
	if len(o.Key) < minKey {
		return nil, &chat.ConfigError{Platform: chat.HTTP, Reason: fmt.Sprintf("the API key has fewer than %d characters; remove its file and a new one is made", minKey)}
	}
	if o.Metrics != nil && len(o.MetricsKey) < minKey {
		return nil, &chat.ConfigError{Platform: chat.HTTP, Reason: fmt.Sprintf("the key of the metrics has fewer than %d characters; remove its file and a new one is made", minKey)}
	}
	if o.Drain <= 0 {
		o.Drain = defaultTime
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Adapter{
		cfg: c, o: o, key: digest(o.Key.Reveal()), sem: make(chan struct{}, c.MaxConcurrent), began: time.Now().Unix(),
		health:    chat.Health{State: chat.Connecting, Since: time.Now(), Name: c.Listen},
		exchanges: make(map[string]*exchange), lines: make(map[string]*line), had: make(map[string]struct{}),
	}, nil
}

// Address returns where the conversation of that name takes place.
func Address(session string) chat.Address {
	return chat.Address{Platform: chat.HTTP, Kind: chat.DM, Chat: session}
}

// Run serves until ctx ends. A socket that cannot be opened is a
// *chat.ConfigError. It can run once.
func (a *Adapter) Run(ctx context.Context, sink chat.Sink) error {
	l, err := a.o.Listen("tcp", a.cfg.Listen)
	if err != nil {
		ce := &chat.ConfigError{Platform: chat.HTTP, Reason: fmt.Sprintf(
			"cannot listen on %s (%v); end what uses it, or set platforms.http.listen to another address", a.cfg.Listen, reason(err))}
		a.set(chat.Failed, ce.Reason)
		return ce
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a.mu.Lock()
	if a.sink != nil {
		a.mu.Unlock()
		return errors.Join(errors.New("httpapi: the adapter runs already"), l.Close())
	}
	a.sink, a.base = sink, work
	a.mu.Unlock()
	a.set(chat.Connected, "")
	s := a.server()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // received below
	select {
	case err = <-served:
		err = &chat.ConfigError{Platform: chat.HTTP, Reason: fmt.Sprintf("the socket on %s is gone: %v", a.cfg.Listen, err)}
	case <-ctx.Done():
		err = nil
	}
	a.close(s)
	stop()
	a.running.Wait()
	a.set(chat.Failed, "the daemon stops")
	return err
}

// close ends the serving: no new requests, a moment for the running ones, then
// an error for those that still wait.
func (a *Adapter) close(s *http.Server) {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	drain, cancel := context.WithTimeout(context.Background(), a.o.Drain)
	defer cancel()
	a.drained(drain)
	a.mu.Lock()
	for _, e := range a.exchanges {
		if e.listeners > 0 {
			e.endLocked(result{err: stopping(e.accepted)})
		}
	}
	a.mu.Unlock()
	ctx, cancel2 := context.WithTimeout(context.Background(), defaultTime)
	defer cancel2()
	if s.Shutdown(ctx) != nil {
		_ = s.Close() // what is left is a client that does not read
	}
}

// drained returns once no exchange waits for its answer, or ctx ends.
func (a *Adapter) drained(ctx context.Context) {
	tick := time.NewTicker(editPace)
	defer tick.Stop()
	for a.waiting() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *Adapter) waiting() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.exchanges {
		if e.listeners > 0 {
			n++
		}
	}
	return n
}

// Capabilities tells what a client can carry: Markdown, in one piece.
func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{
		MaxTextSize: textLimit, TextSize: func(r chat.RichText) int { return len(r.Text) },
		EditInterval: editPace, RawMarkdown: true, CanFind: true,
	}
}

// Health says whether the API listens.
func (a *Adapter) Health() chat.Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.health
	if h.State == chat.Connected {
		h.LastContact = time.Now() // there is no connection to lose
	}
	return h
}

func (a *Adapter) set(s chat.State, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.State, a.health.Error, a.health.Since = s, text, time.Now()
}

// reason is the system's own word for why a socket could not be opened.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}
