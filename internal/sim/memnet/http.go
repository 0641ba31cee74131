package memnet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// An HTTPServer serves a handler to clients in memory, and after Listen over loopback
// too. Its methods may be called from any goroutine. Close must be called.
type HTTPServer struct {
	handler http.Handler
	http    *http.Server   // nil before Listen
	served  sync.WaitGroup // the listener, and the requests through Transport
	done    chan struct{}
	once    sync.Once

	mu   sync.Mutex // guards shut
	shut bool       // Close was called
}

// NewHTTPServer returns a server that is reached through Transport.
func NewHTTPServer(h http.Handler) *HTTPServer {
	return &HTTPServer{handler: h, done: make(chan struct{})}
}

// Listen also serves a free loopback port and returns its URL. It must be called at most
// once, before any request.
func (s *HTTPServer) Listen() (url string, err error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	s.http = &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second}
	s.begin(func() { _ = s.http.Serve(l) }) // always ends with ErrServerClosed
	return "http://" + l.Addr().String(), nil
}

// Close ends all running requests and waits for the server's goroutines.
func (s *HTTPServer) Close() {
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true
		s.mu.Unlock()
		close(s.done)
		if s.http != nil {
			_ = s.http.Close() // no request has state that must be saved
		}
	})
	s.served.Wait()
}

// Done is closed when Close is called; a handler that waits must end then.
func (s *HTTPServer) Done() <-chan struct{} { return s.done }

// Transport returns a transport to the server that uses no network. It works inside a
// testing/synctest bubble too.
func (s *HTTPServer) Transport() http.RoundTripper {
	return Transport{Handler: s.handler, Begin: s.begin}
}

// Client returns a client that uses Transport.
func (s *HTTPServer) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// begin runs f on a goroutine that Close waits for. It reports false, and runs nothing,
// after Close.
func (s *HTTPServer) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.served.Go(f)
	}
	return !s.shut
}
