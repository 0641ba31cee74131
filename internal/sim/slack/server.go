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

// Options configure a Server. The zero value is a server without latency and
// rate limits that records everything.
type Options struct {
	// Latency is the round-trip time of every call; half of it passes before
	// the call is handled and half after.
	Latency time.Duration
	// Limits are the rate limits; none by default. RealLimits returns those of
	// Slack.
	Limits Limits
	// CountersOnly keeps the counters and the last messages of each channel
	// only, for long runs at high rates.
	CountersOnly bool
	// RandomSocket sends each envelope to a random open socket; by default the
	// sockets take turns.
	RandomSocket bool
	// Seed determines the choices of RandomSocket.
	Seed uint64
	// PingEvery is the interval between the pings on a socket; default 10 s. A
	// socket from which nothing arrives for three intervals is closed.
	PingEvery time.Duration
	// ConnectionLife is the time after which a socket gets a disconnect
	// message; default 18,060 s, the value in Slack's hello. For sockets opened
	// with debug_reconnects=true it is 360 s.
	ConnectionLife time.Duration
	// Grace is the time between a disconnect message and the end of the socket;
	// default 10 s.
	Grace time.Duration
	// AckAnySocket accepts an acknowledgement on any socket of the app, not
	// only on the one that carried the envelope. Slack does not document its
	// behavior; the default is the case that is harder for an app.
	AckAnySocket bool
	// EditWindow is how long messages can be edited; default: without limit.
	EditWindow time.Duration
	// NoCursors leaves the cursor out of histories that have more: it is not among
	// the fields of the answer that Slack's specification of 2021 names. Callers
	// continue at the last message.
	NoCursors bool
	// AllTypes makes conversations.list ignore its types. Slack does not say what a
	// server does that knows other types.
	AllTypes bool
}

// A Server simulates Slack with workspaces, apps and people. New creates it and
// Close releases it.
type Server struct {
	opts     Options
	recorder *Recorder
	methods  map[string]method
	ctx      context.Context // ends when the server closes
	stop     context.CancelFunc
	active   sync.WaitGroup // requests, sockets and running timers
	net      network

	faultMu sync.Mutex // guards faults
	faults  []*Injected

	mu       sync.Mutex // guards the fields below and all teams, apps, users and channels
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

// New returns a server that is not reachable yet: it is an http.Handler, and
// Start, Listen or Dial make it reachable.
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
		opts: o, recorder: newRecorder(!o.CountersOnly), methods: methodTable(), ctx: ctx, stop: stop,
		latency: o.Latency, limits: o.Limits, rand: rand.New(rand.NewPCG(o.Seed, 1)),
		meters: map[meterKey]*meter{}, tokens: map[string]*Bot{}, channels: map[string]*Channel{},
		users: map[string]*User{}, files: map[string]*File{}, uploads: map[string]*File{},
		replies: map[string]*replyURL{}, timers: map[*timer]struct{}{},
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

// Close closes listeners, sockets, calls and redeliveries and waits until all
// have ended. The Recorder stays readable.
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

// A timer is a scheduled action; Close stops it or waits for it.
type timer struct {
	s *Server
	t *time.Timer
}

// afterLocked runs f after d while holding s.mu.
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

// idLocked returns an ID in Slack's format: a prefix and nine more characters.
func (s *Server) idLocked(prefix string) string {
	s.nextID++
	return fmt.Sprintf("%s0SIM%05d", prefix, s.nextID)
}

// ServeHTTP implements http.Handler for Web API calls, sockets, uploads,
// downloads and response URLs.
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

// Paths outside the Web API.
const (
	apiPath    = "/api/"
	linkPath   = "/link/"
	uploadPath = "/upload/v1/"
	filePath   = "/files-pri/"
	replyPath  = "/commands/"
)

// route sets the method of a call from its path. Requests outside the Web API
// have names in angle brackets.
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

// Names in records and faults of the requests that are not calls of the Web
// API.
const (
	MethodUpload   = "<upload>"
	MethodDownload = "<download>"
	MethodReply    = "<response_url>"
	methodPage     = "<page>"
)
