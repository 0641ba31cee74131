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

	*memnet.HTTPServer

	api       http.Handler
	errorBody func(status int, message string) any

	mu     sync.Mutex // guards the fields below
	faults []*Fault
	calls  []Call
}

// New returns a server of api, reached through Transport. errorBody returns the body
// with which the provider refuses a request.
func New(api http.Handler, errorBody func(status int, message string) any) *Server {
	s := &Server{URL: "http://memory.test", api: api, errorBody: errorBody}
	s.HTTPServer = memnet.NewHTTPServer(s)
	return s
}

// Start makes the server reachable over a free loopback port too, and sets URL.
func (s *Server) Start() (err error) {
	s.URL, err = s.Listen()
	return err
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
	case <-s.Done():
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
