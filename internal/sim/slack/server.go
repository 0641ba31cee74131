package slack

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	// Limits are the rates of calls; none by default, Slack's own are
	// RealLimits.
	Limits Limits
	// CountersOnly keeps the sums of the ledger and the last messages of each
	// channel, and forgets the rest: for long runs at high rates.
	CountersOnly bool
	// RandomSocket gives each envelope to an open socket by chance; default is
	// one after the other.
	RandomSocket bool
	// Seed chooses the sockets of RandomSocket.
	Seed uint64
	// PingEvery is the time between the pings of a socket; default 10 s. A
	// socket that was not heard of for three of them is closed.
	PingEvery time.Duration
	// ConnectionLife is how long a socket lives before it is told to leave;
	// default 18,060 s, as Slack's hello says. Sockets that are opened with
	// debug_reconnects=true live 360 s.
	ConnectionLife time.Duration
	// Grace is the time between a disconnect message and the end of the
	// socket; default 10 s.
	Grace time.Duration
	// AckAnySocket accepts an acknowledgement on another socket of the app
	// than the one that carried the envelope. What Slack does here is not
	// documented; the default is the case that is harder for an app.
	AckAnySocket bool
	// EditWindow is how long messages can be edited; default: for ever.
	EditWindow time.Duration
}

// A Server is all of Slack: workspaces, apps, people. It is made by New and
// ended by Close.
type Server struct {
	opts    Options
	ledger  *Ledger
	methods map[string]method
	ctx     context.Context // ends with the server
	stop    context.CancelFunc
	active  sync.WaitGroup // requests, sockets and timers that run
	net     network

	faultMu sync.Mutex // guards faults
	faults  []*Injected

	mu       sync.Mutex // guards what follows, and all teams, apps, users and channels
	closed   bool
	latency  time.Duration
	limits   Limits
	rand     *rand.Rand
	meters   map[meterKey]*meter
	teams    []*Team
	apps     []*App
	tokens   map[string]*Bot // by bot token
	channels map[string]*Channel
	users    map[string]*User
	files    map[string]*File
	uploads  map[string]*File // by ticket of the upload URL
	replies  map[string]*replyURL
	timers   map[*timer]struct{}
	nextID   int
	nextSock int
	messages int
}

// New makes a server that nobody can reach yet: it is an http.Handler, and
// Start, Listen or Dial open the ways to it.
func New(o Options) *Server {
	if o.PingEvery <= 0 {
		o.PingEvery = 10 * time.Second
	}
	if o.ConnectionLife <= 0 {
		o.ConnectionLife = 18_060 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		opts: o, ledger: newLedger(!o.CountersOnly), methods: methodTable(), ctx: ctx, stop: stop,
		latency: o.Latency, limits: o.Limits, rand: rand.New(rand.NewPCG(o.Seed, 1)),
		meters: map[meterKey]*meter{}, tokens: map[string]*Bot{}, channels: map[string]*Channel{},
		users: map[string]*User{}, files: map[string]*File{}, uploads: map[string]*File{},
		replies: map[string]*replyURL{}, timers: map[*timer]struct{}{},
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

// Close ends everything and waits for it: listeners, sockets, calls,
// redeliveries. The ledger stays readable.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for t := range s.timers {
		t.stopLocked()
	}
	s.mu.Unlock()
	s.stop()
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

// timer is something that will happen; Close stops it or waits for it.
type timer struct {
	s *Server
	t *time.Timer
}

// afterLocked runs f, under s.mu, when d has passed.
func (s *Server) afterLocked(d time.Duration, f func()) *timer {
	t := &timer{s: s}
	if s.closed {
		return t
	}
	s.timers[t] = struct{}{}
	t.t = time.AfterFunc(d, func() {
		if !s.enter() {
			return
		}
		defer s.active.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.timers[t]; ok {
			delete(s.timers, t)
			f()
		}
	})
	return t
}

func (t *timer) stopLocked() {
	if t == nil || t.t == nil {
		return
	}
	t.t.Stop()
	delete(t.s.timers, t)
}

// idLocked makes an id such as Slack's: a letter and nine more signs.
func (s *Server) idLocked(prefix string) string {
	s.nextID++
	return fmt.Sprintf("%s0SIM%05d", prefix, s.nextID)
}

// ServeHTTP answers one request: a call of the Web API, a socket, an upload, a
// download, or a use of a response URL.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.active.Done()
	life := lifeOf(r.Context(), s.ctx)
	if r.URL.Path == linkPath {
		s.serveSocket(life, w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	c := &call{s: s, ctx: ctx, life: life, http: r}
	c.route(r.URL.Path)
	c.serve(w, r)
}

// The paths beside the Web API.
const (
	apiPath    = "/api/"
	linkPath   = "/link/"
	uploadPath = "/upload/v1/"
	filePath   = "/files-pri/"
	replyPath  = "/commands/"
)

// route names the method of a call after its path. What is no method of the
// Web API has a name in angle brackets.
func (c *call) route(path string) {
	for prefix, name := range map[string]string{
		apiPath: "", uploadPath: MethodUpload, filePath: MethodDownload, replyPath: MethodReply,
	} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			c.rest = rest
			if c.method = name; name == "" {
				c.method = rest
			}
			return
		}
	}
	c.method, c.rest = methodPage, path
}

// The names under which requests that are no calls of the Web API stand in the
// ledger; faults know them by these names too.
const (
	MethodUpload   = "<upload>"
	MethodDownload = "<download>"
	MethodReply    = "<response_url>"
	methodPage     = "<page>"
)
