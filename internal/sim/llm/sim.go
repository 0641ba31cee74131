// Package llm is a server that behaves like model services do: it speaks the
// Messages API and Chat Completions, streaming and not, transcribes sounds and
// makes speech, checks requests as strictly as the services, fails as they fail
// when told to, and keeps a ledger of what it was asked. It knows nothing of the
// program that it is used to test.
package llm

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/sim/memnet"
)

// Options say how a Server behaves. The zero Options are a service that knows
// every model, accepts every key and repeats what it is told.
type Options struct {
	Keys   []string // that are accepted; none: every key that is not empty
	Models []string // that exist; none: every model
	// Windows are how many tokens models take, as the lists of models tell it; of
	// others they tell nothing.
	Windows map[string]int
	// Reply makes the answers; nil is Echo.
	Reply func(Request) Reply
	// Hear makes the text of a transcription; nil: what Sound has put into the file.
	Hear func(Request) string
	// Upload is the most bytes of a request for a transcription; 0: 25 MB.
	Upload int
	// FirstByte is waited before an answer, PerDelta before each piece of it.
	FirstByte, PerDelta time.Duration
	// ContextTokens refuses longer requests as the services do; 0: no limit.
	ContextTokens int
	// MinCache is the least length of a marked prefix that is kept; 0: as the
	// model's.
	MinCache int
	// PrefixCheck refuses thinking blocks whose prefix is not the one that they
	// were made for.
	PrefixCheck bool
	// NoBodies keeps the ledger small: entries have no Body and no Messages.
	NoBodies bool
}

// A Server is a simulated service. Its methods may be called from any
// goroutine.
type Server struct {
	// URL is where the server listens, without a path; of a server that was
	// made with New it is a name that only its Transport knows.
	URL string

	o      Options
	ledger ledger
	cache  cache
	http   *http.Server
	served sync.WaitGroup // the listener and calls through Transport
	closed chan struct{}
	salt   string // makes the ids of calls differ from other servers'
	once   sync.Once

	mu     sync.Mutex // guards what follows
	faults []*Fault
	shut   bool // Close was called
}

// New returns a server that is reached through Transport or as an http.Handler.
func New(o Options) *Server {
	if o.Reply == nil {
		o.Reply = Echo
	}
	s := &Server{URL: "http://model.test", o: o, closed: make(chan struct{}), salt: strings.ToLower(rand.Text()[:6])}
	s.ledger.arrived = make(chan struct{})
	s.ledger.noBodies = o.NoBodies
	s.cache.entries = make(map[uint64]*entry)
	s.cache.minimum = o.MinCache
	return s
}

// Start returns a server that listens on a free port of the loopback.
func Start(o Options) (*Server, error) {
	s := New(o)
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s.URL = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	s.begin(func() { _ = s.http.Serve(l) }) // ends with ErrServerClosed
	return s, nil
}

// Close ends every request that is under way and waits until all is quiet.
func (s *Server) Close() {
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true
		s.mu.Unlock()
		close(s.closed)
		if s.http != nil {
			_ = s.http.Close() // connections are ours; there is nothing to save
		}
	})
	s.served.Wait()
}

// Transport returns a way to the server without a network, which works inside a
// bubble of testing/synctest too.
func (s *Server) Transport() http.RoundTripper { return memnet.Transport{Handler: s, Begin: s.begin} }

// Client returns a client that uses Transport.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// begin runs f beside the caller, unless the server was closed; Close waits
// for it.
func (s *Server) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.served.Go(f)
	}
	return !s.shut
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/messages" && r.Method == http.MethodPost:
		s.serve(w, r, messagesAPI{s})
	case r.URL.Path == "/v1/chat/completions" && r.Method == http.MethodPost:
		s.serve(w, r, chatAPI{s})
	case r.URL.Path == "/v1/audio/transcriptions" && r.Method == http.MethodPost:
		s.serveAudio(w, r, listener{chatAPI{s}})
	case r.URL.Path == "/v1/audio/speech" && r.Method == http.MethodPost:
		s.serveAudio(w, r, speaker{chatAPI{s}})
	case (r.URL.Path == "/v1/models" || strings.HasPrefix(r.URL.Path, "/v1/models/")) && r.Method == http.MethodGet:
		s.models(w, r, strings.TrimPrefix(r.URL.Path[len("/v1/models"):], "/"))
	case r.URL.Path == "/api/show" && r.Method == http.MethodPost:
		s.show(w, r)
	default:
		writeJSON(w, http.StatusNotFound, messagesError("not_found_error", "Not Found"))
	}
}

// An api is one of the two languages.
type api interface {
	// name is the dialect's name in the ledger.
	name() string
	// check reads and judges a request. A refusal comes back as an error body.
	check(h http.Header, body []byte) (Request, *refusal)
	// answer writes rep as the answer to req.
	answer(o *out, req Request, rep Reply)
	// failure returns the body of an error as this service says it.
	failure(status int, text string) any
	// event returns an error as an event of a stream that has begun.
	event(status int, text string) (name string, body any)
}

// A refusal is an answer that is an error.
type refusal struct {
	status int
	body   any
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, a api) {
	body, err := readAll(r)
	if err != nil {
		return // the client went away while it was still asking
	}
	req, no := a.check(r.Header, body)
	req.Dialect, req.Header, req.Body = a.name(), withoutKeys(r.Header), body
	if no == nil && s.o.ContextTokens > 0 && tokens(body) > s.o.ContextTokens {
		no = &refusal{http.StatusBadRequest, tooLong(a.name(), tokens(body), s.o.ContextTokens)}
	}
	fault := s.fault(req)
	e := s.ledger.add(req, fault)
	req.N = e
	o := &out{w: w, ctx: r.Context(), closed: s.closed, api: a, fault: fault}
	o.flusher, _ = w.(http.Flusher)
	defer func() { s.ledger.finish(e, o.status, o.written) }()
	if fault != nil && fault.instead(o) {
		return
	}
	if no != nil {
		o.json(no.status, no.body)
		return
	}
	rep := s.o.Reply(req)
	rep.Calls = slices.Clone(rep.Calls) // ours to fill in
	if rep.Fault != nil && fault == nil {
		fault, o.fault = rep.Fault, rep.Fault
		if fault.instead(o) {
			return
		}
	}
	if fault != nil {
		fault.bend(&rep)
	}
	if rep.Status != 0 {
		o.raw(rep.Status, "application/json", rep.Body)
		return
	}
	if !o.wait(max(rep.FirstByte, s.o.FirstByte)) {
		return
	}
	o.perDelta = max(rep.PerDelta, s.o.PerDelta)
	s.cache.count(&rep, req)
	s.ledger.used(e, rep.counted)
	a.answer(o, req, rep)
}

func (s *Server) keyOK(key string) bool {
	if len(s.o.Keys) == 0 {
		return key != ""
	}
	return slices.Contains(s.o.Keys, key)
}

func (s *Server) modelOK(name string) bool {
	return len(s.o.Models) == 0 || slices.Contains(s.o.Models, name)
}

// Requests returns the ledger, oldest entry first.
func (s *Server) Requests() []Entry { return s.ledger.all() }

// Count returns how many requests came.
func (s *Server) Count() int { return s.ledger.count() }

// Await returns when at least n requests came, or ctx ends.
func (s *Server) Await(ctx context.Context, n int) error { return s.ledger.await(ctx, n) }
