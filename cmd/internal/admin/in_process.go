package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Local returns a client of h in this process. Its requests take the same path as
// over the socket. Closing the client closes h.
func Local(h *Handler) *Client {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := newHTTP(h, h.opts.Log)
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(p) }) // always ErrServerClosed: nothing else ends it
	return &Client{
		http: &http.Client{Transport: &http.Transport{DialContext: p.dial}},
		end: func(ctx context.Context) error {
			err := h.Close(ctx)
			_ = srv.Close()
			wg.Wait()
			return err
		},
	}
}

// pipes is a listener for in-memory connections.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{} // closed by Close
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the next connection.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr names the listener.
func (p *pipes) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "pipe" }
