package discord

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options configure a Server. The zero value is a server without latency and
// rate limits that records everything.
type Options struct {
	// HeartbeatInterval is the interval that hello announces; default 41.25 s.
	// A connection without a heartbeat for twice as long is closed.
	HeartbeatInterval time.Duration
	// ResumeWindow is how long a session without a connection can be resumed;
	// default 3 minutes.
	ResumeWindow time.Duration
	// ReplayBuffer is the number of events that a session keeps for a resume;
	// default 1000. A resume from before them results in an invalid session.
	ReplayBuffer int
	// NonceMemory is how long enforce_nonce remembers a nonce; default 3
	// minutes.
	NonceMemory time.Duration
	// SessionStarts is how many times a bot may identify per day; default 1000.
	// One more identify invalidates its token.
	SessionStarts int
	// IdentifyEvery is the minimum time between two identifies of a bot; an
	// earlier one results in an invalid session. Default: none; Discord's is 5
	// s.
	IdentifyEvery time.Duration
	// Limits are the rate limits of requests; none by default.
	Limits Limits
	// InvalidRequests is the number of answers with 401, 403 or 429 within ten
	// minutes after which clients are banned; default 10000.
	InvalidRequests int
	// Latency is the round-trip time of every request; half of it passes before
	// the request is handled and half after.
	Latency time.Duration
	// FileLife is how long the URL of an attachment is valid; default 24 h.
	FileLife time.Duration
	// FileLimit is the maximum size in bytes of one uploaded file; default 10
	// MiB, the limit of a guild without boosts. A request may be ten times as
	// large.
	FileLimit int
	// CountersOnly keeps the counters and the last messages of each channel
	// only, for long runs at high rates.
	CountersOnly bool
}

func (o *Options) defaults() {
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	set(&o.HeartbeatInterval, 41250*time.Millisecond)
	set(&o.ResumeWindow, 3*time.Minute)
	set(&o.NonceMemory, 3*time.Minute)
	set(&o.FileLife, 24*time.Hour)
	for n, otherwise := range map[*int]int{
		&o.ReplayBuffer: 1000, &o.SessionStarts: 1000, &o.InvalidRequests: 10_000, &o.FileLimit: 10 << 20,
	} {
		if *n <= 0 {
			*n = otherwise
		}
	}
}

// A Server simulates Discord with REST API, gateway and file store. New creates
// it and Close releases it.
type Server struct {
	opts     Options
	recorder *Recorder
	mux      *http.ServeMux
	ctx      context.Context // ends when the server closes
	stop     context.CancelFunc
	active   sync.WaitGroup // requests and gateway connections
	net      network

	faultMu sync.Mutex // guards faults
	faults  []*Injected

	mu       sync.Mutex // guards the fields below and all guilds, channels, bots and sessions
	closed   bool
	lastID   uint64
	messages int
	bots     map[string]*Bot // by token
	users    map[string]*User
	guilds   []*Guild
	channels map[string]*Channel
	order    []*Channel // all channels, in the order of creation
	sessions map[string]*session
	conns    map[*conn]struct{}
	files    map[string]*File // by path
	inters   map[string]*Interaction
	meter    meter
}

// New returns a server that is not reachable yet: it is an http.Handler, and
// Start, Listen, Dial or Transport make it reachable.
func New(o Options) *Server {
	o.defaults()
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		opts: o, recorder: newRecorder(!o.CountersOnly), ctx: ctx, stop: stop, lastID: 1 << 50,
		bots: map[string]*Bot{}, users: map[string]*User{}, channels: map[string]*Channel{},
		sessions: map[string]*session{}, conns: map[*conn]struct{}{}, files: map[string]*File{},
		inters: map[string]*Interaction{},
	}
	s.meter.limits = o.Limits
	s.net.s = s
	s.mux = s.routes()
	return s
}

// Recorder returns the record of the server. It stays readable after Close.
func (s *Server) Recorder() *Recorder { return s.recorder }

// Close closes listeners, connections and requests and waits until all have
// ended. The Recorder stays readable.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.net.close()
	s.CutAll()
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

// ServeHTTP implements http.Handler for the requests and gateway connections of
// bots.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.active.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.mux.ServeHTTP(w, r.WithContext(ctx))
}

// epoch is the first instant of Discord's IDs, in milliseconds of Unix time.
const epoch = 1_420_070_400_000

// newIDLocked returns a snowflake. Later ones are larger, and they contain the
// time if it is after 2015.
func (s *Server) newIDLocked() string {
	s.lastID++
	if ms := time.Now().UnixMilli() - epoch; ms > 0 {
		s.lastID = max(s.lastID, uint64(ms)<<22)
	}
	return strconv.FormatUint(s.lastID, 10)
}

// number returns the numeric value of an ID, for comparisons; 0 for an invalid
// ID.
func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
