package discord

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

// A network holds the listeners of a server and whether they are open.
type network struct {
	s *Server

	mu       sync.Mutex // guards the fields below
	addr     net.Addr   // of the first listener, where Up listens again
	memory   *memnet.Listener
	running  *http.Server
	end      context.CancelFunc
	serving  sync.WaitGroup // listeners
	open     sync.WaitGroup // connections other than gateway connections
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
	return "http://" + l.Addr().String(), nil
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

// Dial connects to the server in memory and ignores the address.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n := &s.net
	n.mu.Lock()
	if n.down || n.finished {
		n.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	}
	if n.memory == nil {
		n.memory = memnet.Listen("discord.test:443")
		n.serveLocked(n.memory)
	}
	l := n.memory
	n.mu.Unlock()
	return l.Dial(ctx, network, address)
}

// DialLoopback connects over the network to the address of Start or Listen and
// ignores the given address.
func (s *Server) DialLoopback(ctx context.Context, _, _ string) (net.Conn, error) {
	s.net.mu.Lock()
	addr := s.net.addr
	s.net.mu.Unlock()
	if addr == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	var d net.Dialer
	return d.DialContext(ctx, addr.Network(), addr.String())
}

// A Dialer makes connections; Server.Dial and Server.DialLoopback are Dialers.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Transport returns a new transport for the REST API and files that connects
// with dial. Requests to all hosts, with https too, reach the server of dial.
// The caller closes idle connections.
func Transport(dial Dialer) *http.Transport {
	return &http.Transport{DialContext: dial, DialTLSContext: dial, MaxIdleConnsPerHost: 64}
}

// Websocket returns a dialer for the gateway that connects with dial, for wss
// too.
func Websocket(dial Dialer) *websocket.Dialer {
	return &websocket.Dialer{NetDialContext: dial, NetDialTLSContext: dial}
}

// Down takes the server off the network: connections are cut, requests that
// were not handled yet are dropped, and new connections are refused. The state
// is kept, and sessions can be resumed within the resume window.
func (s *Server) Down() {
	n := &s.net
	n.mu.Lock()
	n.down = true
	n.stopLocked()
	n.mu.Unlock()
	s.CutAll()
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
			ConnState:   n.count,
		}
	}
	srv := n.running
	n.serving.Go(func() { _ = srv.Serve(l) }) // stopLocked waits for it
}

// count tracks the number of connections that net/http manages.
func (n *network) count(_ net.Conn, st http.ConnState) {
	switch st {
	case http.StateNew:
		n.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		n.open.Done()
	}
}

func (n *network) stopLocked() {
	if n.running == nil {
		return
	}
	n.end()
	_ = n.running.Close()
	n.running, n.memory = nil, nil
	n.serving.Wait()
	n.open.Wait()
}

func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.finished = true
	n.stopLocked()
}
