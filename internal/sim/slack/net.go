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

// memoryHost is the server's name in memory.
const memoryHost = "slack.test"

// network is the ways to the server and whether they are open.
type network struct {
	s *Server

	mu       sync.Mutex // guards what follows
	addr     net.Addr   // of the first listener, where Up listens again
	pipes    *memnet.Listener
	running  *http.Server
	end      context.CancelFunc
	serving  sync.WaitGroup
	down     bool
	finished bool
}

type lifeKey struct{}

// lifeOf is the context that ends when the server goes down.
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

// Listen serves the connections of l, which is closed with the server. After
// Down, Up listens at the address of the first l.
func (s *Server) Listen(l net.Listener) {
	n := &s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addr == nil {
		n.addr = l.Addr()
	}
	n.serveLocked(l)
}

// URL is where the server listens; in memory it is a name that only Dial can
// reach.
func (s *Server) URL() string { return "http://" + s.host() }

// APIURL is what slack.OptionAPIURL takes: the Web API, with a slash at the end.
func (s *Server) APIURL() string { return s.URL() + apiPath }

func (s *Server) host() string {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if s.net.addr == nil {
		return memoryHost
	}
	return s.net.addr.String()
}

// Dial connects in memory, whatever the address.
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

// Transport is a new transport over in-memory connections. Idle connections
// end with the server.
func (s *Server) Transport() *http.Transport {
	return &http.Transport{DialContext: s.Dial, MaxIdleConnsPerHost: 64}
}

// Client is an HTTP client over Transport.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// Dialer opens sockets over in-memory connections; socketmode.OptionDialer
// takes it.
func (s *Server) Dialer() *websocket.Dialer { return &websocket.Dialer{NetDialContext: s.Dial} }

// Down takes the server off the network: connections and sockets are cut,
// calls that were not handled yet are not handled, new connections are refused.
// State stays, and events go on: they find no socket, are tried again as Slack
// does, and given up.
func (s *Server) Down() {
	n := &s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	n.stopLocked()
}

// Up brings the server back at the same address.
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
	n.serving.Go(func() { _ = srv.Serve(l) }) // stopLocked waits
}

func (n *network) stopLocked() {
	if n.running == nil {
		return
	}
	n.end()
	_ = n.running.Close()
	if n.pipes != nil {
		_ = n.pipes.Close() // also before it was served; never fails
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
