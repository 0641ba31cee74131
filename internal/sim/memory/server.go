// Package memory holds what the simulators of memory providers have in common: a
// server that is reached over loopback or in memory, faults, a record of all calls,
// and a search by words. A simulator's own package embeds Server and implements the
// provider's API. The packages do not import the code that they test.
package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"hermesd/internal/sim/memnet"
)

// maxBody is the largest request body in bytes that a server reads.
const maxBody = 64 << 20

// A Call is one request that a server received.
type Call struct {
	At     time.Time
	Method string
	Path   string
	Query  url.Values
	Header http.Header // without keys
	Body   []byte
	Status int    // of the answer; 0: the client got none
	Effect bool   // the API has handled the call
	Key    string // the key that was sent
}

// A Server serves the API of one provider. Its methods may be called from any
// goroutine. Close must be called.
type Server struct {
	// URL is the base URL, without a path. Before Start it is a name that only
	// Transport can reach.
	URL string

	api       http.Handler
	errorBody func(status int, message string) any

	http   *http.Server
	served sync.WaitGroup // the listener, and the requests through Transport
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex // guards the fields below
	shut   bool       // Close was called
	faults []*Fault
	calls  []Call
}

// New returns a server of api, reached through Transport. errorBody returns the body
// with which the provider refuses a request.
func New(api http.Handler, errorBody func(status int, message string) any) *Server {
	return &Server{URL: "http://memory.test", api: api, errorBody: errorBody, closed: make(chan struct{})}
}

// Start makes the server reachable over a free loopback port too, and sets URL.
func (s *Server) Start() error {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.URL = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	s.begin(func() { _ = s.http.Serve(l) }) // always ends with ErrServerClosed
	return nil
}

// Close ends all running requests and waits for the server's goroutines.
func (s *Server) Close() {
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true
		s.mu.Unlock()
		close(s.closed)
		if s.http != nil {
			_ = s.http.Close() // no request has state that must be saved
		}
	})
	s.served.Wait()
}

// Transport returns a transport to the server that uses no network. It works inside a
// testing/synctest bubble.
func (s *Server) Transport() http.RoundTripper { return memnet.Transport{Handler: s, Begin: s.begin} }

// Client returns a client that uses Transport.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// begin runs f on a goroutine that Close waits for. It reports false, and runs nothing,
// after Close.
func (s *Server) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.served.Go(f)
	}
	return !s.shut
}

// Calls returns all calls so far, in the order of their arrival.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count returns how many calls with the method and the path have had an effect.
func (s *Server) Count(method, path string) int {
	n := 0
	for _, c := range s.Calls() {
		if c.Effect && c.Method == method && c.Path == path {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client disconnected while it was still sending
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	number := s.record(r, body)
	f := s.fault(r)
	if !s.wait(r.Context(), f.Delay) {
		panic(http.ErrAbortHandler)
	}
	if !f.Kind.handled() {
		s.done(number, f.answer(w, s.errorBody), false)
		return
	}
	answer := &buffer{header: make(http.Header), status: http.StatusOK}
	s.api.ServeHTTP(answer, r)
	s.done(number, 0, true)
	if !s.wait(r.Context(), f.Late) {
		panic(http.ErrAbortHandler)
	}
	s.done(number, f.spoil(w, answer), true)
}

// wait waits for d and reports whether the request and the server go on.
func (s *Server) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.closed:
		return false
	}
}

func (s *Server) record(r *http.Request, body []byte) int {
	header := r.Header.Clone()
	key := Key(r)
	header.Del("Authorization")
	header.Del("X-Api-Key")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{At: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: header, Body: body, Key: key})
	return len(s.calls) - 1
}

func (s *Server) done(number, status int, effect bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[number].Status, s.calls[number].Effect = status, effect
}

// A buffer holds an answer until it is sent.
type buffer struct {
	header http.Header
	status int
	bytes.Buffer
}

func (b *buffer) Header() http.Header { return b.header }

func (b *buffer) WriteHeader(status int) { b.status = status }

// JSON writes v as the answer.
func JSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the values are made by the simulators, and writing to a buffer cannot fail
}

// Read decodes the JSON body of a request strictly: fields that the API does not know
// are an error, as is anything after the value.
func Read(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("data after the JSON value")
	}
	return nil
}
