package slack

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/gorilla/websocket"

	"hermesd/internal/sim/memnet"
)

// memoryHost is the host name of the server for in-memory connections.
const memoryHost = "slack.test"

// A network holds the listeners of a server and whether they are open.
type network struct {
	s *Server

	mu       sync.Mutex // guards the fields below
	addr     net.Addr   // of the first listener, where Up listens again
	pipes    *memnet.Listener
	running  *http.Server
	end      context.CancelFunc
	serving  sync.WaitGroup
	down     bool
	finished bool
}

type lifeKey struct{}

// lifeOf returns the context that ends when the server goes down.
func lifeOf(ctx, otherwise context.Context) context.Context {
	if life, ok := ctx.Value(lifeKey{}).(context.Context); ok {
		return life
	}
	return otherwise
}

// Start listens on a free loopback port and returns the server's URL.
func (s *Server) Start() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.Listen(l)
	return s.URL(), nil
}

// Listen serves the connections of l, which Close closes. After Down, Up
// listens on the address of the first l.
func (s *Server) Listen(l net.Listener) {
	n := &s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addr == nil {
		n.addr = l.Addr()
	}
	n.serveLocked(l)
}

// URL returns the base URL of the server. If the server is only reachable in
// memory, it is a name that only Dial can reach.
func (s *Server) URL() string { return "http://" + s.host() }

// APIURL returns the URL of the Web API for slack.OptionAPIURL, with a trailing
// slash.
func (s *Server) APIURL() string { return s.URL() + apiPath }

func (s *Server) host() string {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if s.net.addr == nil {
		return memoryHost
	}
	return s.net.addr.String()
}

// Dial connects to the server in memory and ignores the address.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n := &s.net
	n.mu.Lock()
	if n.down || n.finished {
		n.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	}
	if n.pipes == nil {
		n.pipes = memnet.Listen(memoryHost)
		n.serveLocked(n.pipes)
	}
	pipes := n.pipes
	n.mu.Unlock()
	return pipes.Dial(ctx, network, address)
}

// Transport returns a new transport over in-memory connections. Close closes
// its idle connections.
func (s *Server) Transport() *http.Transport {
	return &http.Transport{DialContext: s.Dial, MaxIdleConnsPerHost: 64}
}

// Client returns an HTTP client that uses Transport.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// Dialer returns a dialer for socketmode.OptionDialer that uses in-memory
// connections.
func (s *Server) Dialer() *websocket.Dialer { return &websocket.Dialer{NetDialContext: s.Dial} }

// Down takes the server off the network: connections and sockets are cut, calls
// that were not handled yet are dropped, and new connections are refused. The
// state is kept. Events continue: they find no socket, are retried as Slack
// does, and are finally lost.
func (s *Server) Down() {
	n := &s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	n.stopLocked()
}

// Up makes the server reachable again at the same address.
func (s *Server) Up() error {
	n := &s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.finished || !n.down {
		return nil
	}
	if n.addr != nil {
		l, err := net.Listen(n.addr.Network(), n.addr.String())
		if err != nil {
			return err
		}
		n.serveLocked(l)
	}
	n.down = false
	return nil
}

func (n *network) serveLocked(l net.Listener) {
	if n.finished {
		_ = l.Close()
		return
	}
	if n.running == nil {
		life, end := context.WithCancel(n.s.ctx)
		n.end = end
		base := context.WithValue(context.Background(), lifeKey{}, life)
		n.running = &http.Server{
			Handler:     n.s,
			BaseContext: func(net.Listener) context.Context { return base },
			ErrorLog:    log.New(io.Discard, "", 0),
		}
	}
	srv := n.running
	n.serving.Go(func() { _ = srv.Serve(l) }) // stopLocked waits for it
}

func (n *network) stopLocked() {
	if n.running == nil {
		return
	}
	n.end()
	_ = n.running.Close()
	if n.pipes != nil {
		_ = n.pipes.Close() // needed even if it was not served yet; never fails
	}
	n.running, n.pipes = nil, nil
	n.serving.Wait()
}

func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.finished = true
	n.stopLocked()
}
