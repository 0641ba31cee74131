package telegram

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options change a server. The zero value is a quick server without limits
// that remembers everything.
type Options struct {
	// Latency is the round trip of every call, half of it before the call is
	// handled and half after.
	Latency time.Duration
	// Limits are the rates of sending; none by default.
	Limits Limits
	// CountersOnly keeps the sums of the ledger and the last messages of each
	// chat, and forgets the rest: for long runs at high rates.
	CountersOnly bool
	// Seed chooses the update ids.
	Seed uint64
	// NoPollGuard lifts the real server's guard against busy polling: a poll
	// with the offset of the last one is held for 3 s when that was less than
	// 3 s ago, and gets a single update when it was less than 0.5 s ago.
	NoPollGuard bool
	// CallbackLife is how long a callback query can be answered; default 1 min.
	CallbackLife time.Duration
	// Webhooks makes the webhook calls; default: over the network. With one of
	// its own a server accepts plain http addresses of any host.
	Webhooks http.RoundTripper
}

// A Server is a Bot API server. It is made by New and ended by Close.
type Server struct {
	opts    Options
	ledger  *Ledger
	methods map[string]method
	ctx     context.Context // ends with the server
	stop    context.CancelFunc
	active  sync.WaitGroup // requests and listeners
	net     network

	faultMu sync.Mutex // guards faults
	faults  []*Injected

	mu          sync.Mutex // guards what follows, and all chats and bots
	closed      bool
	latency     time.Duration
	limits      Limits
	floods      map[int64]time.Time
	meters      map[meterKey]*meter
	bots        map[string]*Bot // by token
	people      map[int64]*User // bots too
	chats       map[int64]*Chat // shared ones
	rooms       []*Chat         // all, in order
	files       map[string]*Media
	recent      map[recentKey]*item
	recentOrder []recentKey
	nextChat    int64
	nextUser    int64
	nextFile    int
	nextQuery   int
	messages    int
}

// New makes a server that nobody can reach yet: it is an http.Handler, and
// Start, Listen or Transport open the ways to it.
func New(o Options) *Server {
	if o.CallbackLife <= 0 {
		o.CallbackLife = time.Minute
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		opts: o, ledger: newLedger(!o.CountersOnly), methods: methodTable(), ctx: ctx, stop: stop,
		latency: o.Latency, limits: o.Limits,
		floods: map[int64]time.Time{}, meters: map[meterKey]*meter{},
		bots: map[string]*Bot{}, people: map[int64]*User{}, chats: map[int64]*Chat{},
		files: map[string]*Media{}, recent: map[recentKey]*item{},
		nextChat: 4_000_000,
	}
	s.net.s = s
	return s
}

// Ledger is the server's record.
func (s *Server) Ledger() *Ledger { return s.ledger }

// SetLatency changes the round trip of all further calls.
func (s *Server) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// Close ends everything and waits for it: listeners, connections, calls,
// webhook deliveries. The ledger stays readable.
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

// enter counts a request in; false if the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active.Add(1)
	return true
}

// ServeHTTP answers one request of a bot.
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

// route finds bot and method in a path: /bot<token>/<method>, perhaps with
// test/ before the method, or /file/bot<token>/<path>.
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
