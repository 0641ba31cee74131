package memnet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// A Listener accepts connections that Dial makes in memory. Its zero value is
// not usable; Listen makes one.
type Listener struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns a listener; name is the address that it and its connections
// report. It serves an http.Server as any other listener does:
//
//	l := memnet.Listen("discord.test:443")
//	go server.Serve(l)
//	web := &http.Transport{DialContext: l.Dial}
//	socket := websocket.Dialer{NetDialContext: l.Dial, NetDialTLSContext: l.Dial}
//
// With NetDialTLSContext the dialer reaches a wss:// address without TLS;
// http.Transport.DialTLSContext does the same for https.
func Listen(name string) *Listener {
	return &Listener{name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener and ignores the network and the address. It
// waits until the connection is accepted. On a closed listener it fails as a
// TCP dial to a port without a listener does.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := Conns(l.name)
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: l.Addr(), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: l.Addr(), Err: context.Cause(ctx)}
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Accepted connections stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return address(l.name) }

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }
