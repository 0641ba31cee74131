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
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// StoredMessage is what the store knows about an accepted message.
type StoredMessage struct {
	Accepted bool   // the key has been accepted before
	Ended    bool   // there will be no further result
	Text     string // the answer, "" if there is none
	Reason   string // without an answer: the reason, as text
}

// Options are the dependencies of an Adapter. Key, Log and all functions but Listen are
// required.
type Options struct {
	// Key is the bearer token of clients.
	Key secret.Value
	// Model is the name of the configured model, which clients may also use as
	// the model name.
	Model string
	// Lookup returns the state of the message with an idempotency key. It ends
	// the wait for turns that end without an answer, and serves keys of an
	// earlier process.
	Lookup func(ctx context.Context, key string) (StoredMessage, error)
	// IsNewSession reports whether the session at an address has no messages yet.
	// Only then is a client's own copy of the conversation adopted.
	IsNewSession func(ctx context.Context, at chat.Address) (bool, error)
	// StoreFile stores a file of a request before the request is accepted.
	StoreFile func(ctx context.Context, f chat.File, content []byte) (chat.File, error)
	// Fetch downloads an external URL, through a client that refuses private
	// addresses.
	Fetch func(ctx context.Context, url string, limit int64) ([]byte, error)
	// Ready reports whether the daemon can answer, and if not why, as text
	// without secrets.
	Ready func() (ok bool, why string)
	// Accounts returns the health of the daemon's connections, for /readyz.
	Accounts func() map[chat.Account]chat.Health
	// Metrics handles GET /metrics for clients with MetricsKey, which gives
	// access to nothing else, or Key.
	Metrics    http.Handler
	MetricsKey secret.Value
	// Listen opens the socket; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// Drain is how long requests may still get their answers after Run's context
	// ends; 0 means 1 s.
	Drain time.Duration
	Log   *zap.Logger
}

const (
	headerTime  = 10 * time.Second // for reading a request's headers
	bodyTime    = time.Minute      // for reading its body
	writeTime   = 30 * time.Second // for writing each piece of an answer
	idleTime    = 2 * time.Minute
	keepAlive   = 10 * time.Second // between keep-alive comments in a stream
	askAgain    = 5 * time.Second  // between calls of Lookup
	editPace    = 50 * time.Millisecond
	maxHeader   = 32 << 10
	maxKept     = 256  // exchanges that are kept for their keys
	maxHad      = 1024 // answers that are remembered as delivered
	textLimit   = 8 << 20
	defaultTime = time.Second
)

// An Adapter serves the HTTP API. It is safe for concurrent use.
type Adapter struct {
	cfg Config
	o   Options
	key [32]byte      // digest of the key
	sem chan struct{} // one value per running request

	began int64 // Unix time

	running sync.WaitGroup // the exchanges' goroutines

	mu        sync.Mutex // guards the fields below
	sink      chat.Sink
	base      context.Context // Run's context; nil before
	ended     bool            // new requests are rejected
	health    chat.Health
	exchanges map[string]*exchange // by Inbound.ID
	kept      []string             // those with keys, oldest first
	lines     map[string]*line     // by session
	had       map[string]struct{}  // IDs of exchanges whose answer was written
	hadOrder  []string
}

var _ interface {
	chat.Adapter
	chat.Editor
	chat.Deleter
	chat.Finder
} = (*Adapter)(nil)

// New returns an adapter that serves when Run is called. Its error is a
// *chat.ConfigError.
func New(c Config, o Options) (*Adapter, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, &chat.ConfigError{Platform: chat.HTTP, Reason: err.Error()}
	}
	if len(o.Key) < minKey {
		return nil, &chat.ConfigError{Platform: chat.HTTP, Reason: fmt.Sprintf("the API key has fewer than %d characters; remove its file and a new one is made", minKey)}
	}
	if len(o.MetricsKey) < minKey {
		return nil, &chat.ConfigError{Platform: chat.HTTP, Reason: fmt.Sprintf("the key of the metrics has fewer than %d characters; remove its file and a new one is made", minKey)}
	}
	o.Drain = cmp.Or(max(o.Drain, 0), defaultTime)
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	return &Adapter{
		cfg: c, o: o, key: digest(o.Key.Reveal()), sem: make(chan struct{}, c.MaxConcurrent), began: time.Now().Unix(),
		health:    chat.Health{State: chat.Connecting, Since: time.Now(), Name: c.Listen},
		exchanges: make(map[string]*exchange), lines: make(map[string]*line), had: make(map[string]struct{}),
	}, nil
}

// Address returns the address of the session of that name.
func Address(session string) chat.Address {
	return chat.Address{Platform: chat.HTTP, Kind: chat.DM, Chat: session}
}

// Run serves until ctx ends. If the socket cannot be opened, the error is a
// *chat.ConfigError. It can be called once.
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
		return errors.Join(errors.New("httpapi: adapter is already running"), l.Close())
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

// close stops serving: it rejects new requests, gives running ones some time,
// then ends those that still wait with an error.
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
		_ = s.Close() // the remaining clients do not read
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

// Capabilities implements chat.Adapter. An answer is Markdown in one piece.
func (a *Adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{
		MaxTextSize: textLimit, TextSize: func(r chat.RichText) int { return len(r.Text) },
		EditInterval: editPace, RawMarkdown: true, CanFind: true,
	}
}

// Health implements chat.Adapter. It reports whether the API listens.
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

// reason returns the system's error, without the wrapping of package net, for a
// socket that could not be opened.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(openaiapi.Encode(v)) // the client may have disconnected
}

// healthz handles GET /healthz: it answers 200 while the process runs.
func (a *Adapter) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// proof is the state of one connection, without names and reasons.
type proof struct {
	State chat.State `json:"state"`
	// Age is the number of seconds since the platform last showed that the
	// connection works; absent if it never did.
	Age *float64 `json:"last_contact_age_seconds,omitempty"`
}

// readyz handles GET /readyz: it reports whether messages are answered now.
func (a *Adapter) readyz(w http.ResponseWriter, _ *http.Request) {
	v := struct {
		Ready    bool             `json:"ready"`
		Why      string           `json:"reason,omitempty"`
		Accounts map[string]proof `json:"accounts,omitempty"`
	}{Accounts: map[string]proof{}}
	v.Ready, v.Why = a.o.Ready()
	if a.stopped() {
		v.Ready, v.Why = false, "the daemon stops"
	}
	for account, h := range a.o.Accounts() {
		p := proof{State: h.State}
		if !h.LastContact.IsZero() {
			age := time.Since(h.LastContact).Round(time.Millisecond).Seconds()
			p.Age = &age
		}
		name := string(account.Platform)
		if account.Name != "" {
			name += "/" + account.Name
		}
		v.Accounts[name] = p
	}
	status := http.StatusOK
	if !v.Ready {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, v)
}

func (a *Adapter) stopped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

type described struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

func (a *Adapter) describe(name string) described {
	return described{ID: name, Object: "model", Created: a.began, Owner: "hermesd"}
}

func (a *Adapter) models(w http.ResponseWriter, _ *http.Request) {
	v := struct {
		Object string      `json:"object"`
		Data   []described `json:"data"`
	}{Object: "list"}
	for _, n := range a.names() {
		v.Data = append(v.Data, a.describe(n))
	}
	answer(w, http.StatusOK, v)
}

// model handles GET /v1/models/NAME.
func (a *Adapter) model(w http.ResponseWriter, r *http.Request) {
	for _, n := range a.names() {
		if n == r.PathValue("id") {
			answer(w, http.StatusOK, a.describe(n))
			return
		}
	}
	noModel(r.PathValue("id")).Write(w)
}
