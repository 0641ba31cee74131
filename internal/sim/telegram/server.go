package telegram

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options configure a Server. The zero value is a server without latency and
// rate limits that records everything.
type Options struct {
	// Latency is the round-trip time of every call; half of it passes before
	// the call is handled and half after.
	Latency time.Duration
	// Limits are the rate limits for sends and edits; none by default.
	Limits Limits
	// CountersOnly keeps the counters and the last messages of each chat only,
	// for long runs at high rates.
	CountersOnly bool
	// Seed determines the update IDs.
	Seed uint64
	// NoPollGuard disables the real server's protection against busy polling: a
	// poll with the same offset as the last one is delayed by 3 s if that was
	// less than 3 s ago, and gets a single update if it was less than 0.5 s
	// ago.
	NoPollGuard bool
	// CallbackLife is how long a callback query can be answered; default 1 min.
	CallbackLife time.Duration
	// Webhooks sends the webhook requests; default: over the network. A server
	// with its own Webhooks accepts plain http addresses of any host.
	Webhooks http.RoundTripper
}

// A Server is a simulated Bot API server. New creates it and Close releases it.
type Server struct {
	opts     Options
	recorder *Recorder
	methods  map[string]method
	ctx      context.Context // ends when the server closes
	stop     context.CancelFunc
	active   sync.WaitGroup // requests and listeners
	net      network

	faultMu sync.Mutex // guards faults
	faults  []*Injected

	mu          sync.Mutex // guards the fields below and all chats and bots
	closed      bool
	latency     time.Duration
	limits      Limits
	floods      map[int64]time.Time
	meters      map[meterKey]*meter
	bots        map[string]*Bot // by token
	people      map[int64]*User // includes bots
	chats       map[int64]*Chat // shared chats
	rooms       []*Chat         // all chats, in the order of creation
	files       map[string]*Media
	recent      map[recentKey]*item
	recentOrder []recentKey
	nextChat    int64
	nextUser    int64
	nextFile    int
	nextQuery   int
	messages    int
}

// New returns a server that is not reachable yet: it is an http.Handler, and
// Start, Listen or Transport make it reachable.
func New(o Options) *Server {
	if o.CallbackLife <= 0 {
		o.CallbackLife = time.Minute
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		opts: o, recorder: newRecorder(!o.CountersOnly), methods: methodTable(), ctx: ctx, stop: stop,
		latency: o.Latency, limits: o.Limits,
		floods: map[int64]time.Time{}, meters: map[meterKey]*meter{},
		bots: map[string]*Bot{}, people: map[int64]*User{}, chats: map[int64]*Chat{},
		files: map[string]*Media{}, recent: map[recentKey]*item{},
		nextChat: 4_000_000,
	}
	s.net.s = s
	return s
}

// Recorder returns the record of the server. It stays readable after Close.
func (s *Server) Recorder() *Recorder { return s.recorder }

// SetLatency changes the round-trip time of later calls.
func (s *Server) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// Close closes listeners, connections, calls and webhook deliveries and waits
// until all have ended. The Recorder stays readable.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	var hooks []*webhook
	for _, b := range s.bots {
		if b.hook != nil {
			hooks = append(hooks, b.hook)
			b.hook = nil
		}
	}
	s.mu.Unlock()
	s.stop()
	for _, h := range hooks {
		h.close()
	}
	s.net.close()
	s.active.Wait()
}

// enter registers a request, for which Close waits. It reports false if the
// server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active.Add(1)
	return true
}

// ServeHTTP implements http.Handler for the requests of bots.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.active.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	c := &call{s: s, ctx: ctx, life: lifeOf(r.Context(), s.ctx)}
	c.route(r.URL.Path)
	c.serve(w, r)
}

// route parses a path into bot and method: /bot<token>/<method>, with an
// optional test/ before the method, or /file/bot<token>/<path>.
func (c *call) route(path string) {
	rest, file := strings.CutPrefix(path, "/file")
	rest, ok := strings.CutPrefix(rest, "/bot")
	token, method, found := strings.Cut(rest, "/")
	if !ok || !found {
		c.refused = notFound()
		return
	}
	if file {
		c.path, method = method, "file"
	}
	c.method = methodKey(strings.TrimPrefix(method, "test/"))
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.bot = c.s.bots[token]; c.bot != nil {
		return
	}
	c.refused = unauthorized("")
	if !strings.Contains(token, ":") {
		c.refused = unauthorized(": invalid token specified")
	}
}

func methodKey(name string) string { return strings.ToLower(name) }
