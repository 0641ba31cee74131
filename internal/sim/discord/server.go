package discord

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options change a server. The zero value is a quick server without rate
// limits that remembers everything.
type Options struct {
	// HeartbeatInterval is what hello tells; default 41.25 s. A connection
	// that sends no heartbeat for twice as long is closed.
	HeartbeatInterval time.Duration
	// ResumeWindow is how long a session without a connection can be resumed;
	// default 3 minutes.
	ResumeWindow time.Duration
	// ReplayBuffer is how many events a session keeps for a resume; default
	// 1000. A resume from before them is an invalid session.
	ReplayBuffer int
	// NonceMemory is how long enforce_nonce remembers; default 3 minutes.
	NonceMemory time.Duration
	// SessionStarts is how many times a bot may identify in a day; default
	// 1000. One more takes its token away.
	SessionStarts int
	// IdentifyEvery is the shortest time between two identifies of a bot; a
	// quicker one is an invalid session. Discord: 5 s; default: none.
	IdentifyEvery time.Duration
	// Limits are the rates of requests; none by default.
	Limits Limits
	// InvalidRequests is how many answers 401, 403 and 429 in ten minutes ban
	// the clients from the server; default 10000.
	InvalidRequests int
	// Latency is the round trip of every request, half of it before it is
	// handled and half after.
	Latency time.Duration
	// FileLife is how long the URL of an attachment is good; default 24 h.
	FileLife time.Duration
	// FileLimit is how large one uploaded file may be; default 10 MiB, which is
	// what a guild without boosts has. A request may be ten times as large.
	FileLimit int
	// CountersOnly keeps the sums of the ledger and the last messages of each
	// channel, and forgets the rest: for long runs at high rates.
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

// A Server is a Discord: REST interface, gateway and file store. It is made by
// New and ended by Close.
type Server struct {
	opts   Options
	ledger *Ledger
	mux    *http.ServeMux
	ctx    context.Context // ends with the server
	stop   context.CancelFunc
	active sync.WaitGroup // requests and gateway connections
	net    network

	faultMu sync.Mutex // guards faults
	faults  []*Injected

	mu       sync.Mutex // guards what follows, and all guilds, channels, bots and sessions
	closed   bool
	lastID   uint64
	messages int
	bots     map[string]*Bot // by token
	users    map[string]*User
	guilds   []*Guild
	channels map[string]*Channel
	order    []*Channel // all channels, in the order of making
	sessions map[string]*session
	conns    map[*conn]struct{}
	files    map[string]*File // by path
	inters   map[string]*Interaction
	meter    meter
}

// New makes a server that nobody can reach yet: it is an http.Handler, and
// Start, Listen, Dial and Transport open the ways to it.
func New(o Options) *Server {
	o.defaults()
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		opts: o, ledger: newLedger(!o.CountersOnly), ctx: ctx, stop: stop, lastID: 1 << 50,
		bots: map[string]*Bot{}, users: map[string]*User{}, channels: map[string]*Channel{},
		sessions: map[string]*session{}, conns: map[*conn]struct{}{}, files: map[string]*File{},
		inters: map[string]*Interaction{},
	}
	s.meter.limits = o.Limits
	s.net.s = s
	s.mux = s.routes()
	return s
}

// Ledger is the server's record.
func (s *Server) Ledger() *Ledger { return s.ledger }

// Close ends everything and waits for it: listeners, connections, requests. The
// ledger stays readable.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.net.close()
	s.CutAll()
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

// ServeHTTP answers one request of a bot, or carries its gateway connection.
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

// epoch is where the ids of Discord begin, in milliseconds of Unix time.
const epoch = 1_420_070_400_000

// newIDLocked makes a snowflake: later ones are larger, and they carry the time
// if it is after 2015.
func (s *Server) newIDLocked() string {
	s.lastID++
	if ms := time.Now().UnixMilli() - epoch; ms > 0 {
		s.lastID = max(s.lastID, uint64(ms)<<22)
	}
	return strconv.FormatUint(s.lastID, 10)
}

// number is the value of an id, for comparing; 0 for what is none.
func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
