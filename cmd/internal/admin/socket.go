package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/internal/spawn"
)

const (
	// SocketName is the control socket in the home directory.
	SocketName = "hermesd.sock"
	// PathName is the file in the home directory that contains the path of the
	// socket, if the path of the home directory is too long for a socket.
	PathName = "hermesd.sock.path"

	// maxPath is the length of a socket path that every system accepts.
	maxPath = 100
	// dirPrefix is the name prefix of directories that contain a socket.
	dirPrefix = "hermesd-"
)

// A Server serves a Handler on the control socket.
type Server struct {
	h    *Handler
	http *http.Server
	path string
	drop []string // paths to remove in Close, in order
	log  *zap.Logger

	warned  time.Time // last warning of checkPeer
	refused int       // connections refused since then

	wg   sync.WaitGroup // the serving goroutine
	once sync.Once
	err  error
}

// Serve opens the control socket of home and serves h on it until Close. The
// caller must hold the lock of home: an existing socket is then a leftover of a
// dead process and is replaced. Connections of processes that descend from a command
// of the agent are refused.
func Serve(home string, h *Handler) (*Server, error) {
	s := &Server{h: h, log: h.opts.Log}
	s.http = newHTTP(http.HandlerFunc(s.serve), s.log)
	s.http.ConnContext = s.checkPeer
	l, err := s.listen(home)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s.wg.Go(func() { // Close waits for it
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("control socket server failed", zap.Error(err))
		}
	})
	return s, nil
}

// peerError is the context key of the error with which a connection is refused.
type peerError struct{}

// warnInterval is the least time between warnings of refused connections.
const warnInterval = time.Minute

// checkPeer adds the error with which the connection is refused, if any, to its context.
// The server calls it for one connection after the other.
func (s *Server) checkPeer(ctx context.Context, c net.Conn) context.Context {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	err := spawn.CheckPeer(unix)
	if err == nil {
		return ctx
	}
	s.refused++
	if time.Since(s.warned) >= warnInterval {
		s.log.Warn("control socket refused a connection", zap.Error(err), zap.Int("refused", s.refused))
		s.warned, s.refused = time.Now(), 0
	}
	return context.WithValue(ctx, peerError{}, err)
}

// serve serves one request of a connection that is not refused.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if err, ok := r.Context().Value(peerError{}).(error); ok {
		s.h.fail(w, &Error{http.StatusForbidden, fmt.Sprintf("commands of the agent may not use the control socket: %v; run this in a terminal of your own", err)})
		return
	}
	s.h.ServeHTTP(w, r)
}

func newHTTP(h http.Handler, log *zap.Logger) *http.Server {
	return &http.Server{
		Handler: h, ErrorLog: zap.NewStdLog(log), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
	}
}

// Close detaches terminals, waits for running requests until ctx ends, and removes
// the socket.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() {
		for _, p := range s.drop {
			if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.err = errors.Join(s.err, err)
			}
		}
		s.err = errors.Join(s.err, s.h.Close(ctx), s.http.Shutdown(ctx))
		if s.err != nil {
			s.err = errors.Join(s.err, s.http.Close())
		}
		s.wg.Wait()
	})
	return s.err
}

// listen opens the socket.
func (s *Server) listen(home string) (net.Listener, error) {
	sweep(home)
	s.path = filepath.Join(home, SocketName)
	if err := clear(s.path); err != nil {
		return nil, err
	}
	if len(s.path) <= maxPath {
		s.drop = []string{s.path}
		return open(s.path)
	}
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()), dirPrefix) // mode 0700, owned by this process
	if err != nil {
		return nil, err
	}
	s.path = filepath.Join(dir, SocketName)
	note := filepath.Join(home, PathName)
	s.drop = []string{note, s.path, dir}
	l, err := open(s.path)
	if err == nil {
		if err = os.WriteFile(note, []byte(s.path+"\n"), 0o600); err == nil {
			return l, nil
		}
		err = errors.Join(err, l.Close())
	}
	for _, p := range s.drop {
		_ = os.Remove(p) // whatever was created
	}
	return nil, err
}

// clear returns an error if path exists and is not a socket.
func clear(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is not a socket; move it away", path)
	}
	return nil
}

// sweep removes the leftovers of a dead process outside of home.
func sweep(home string) {
	note := filepath.Join(home, PathName)
	raw, err := os.ReadFile(note)
	if err != nil {
		return
	}
	path := strings.TrimSpace(string(raw))
	dir := filepath.Dir(path)
	if filepath.Base(path) == SocketName && strings.HasPrefix(filepath.Base(dir), dirPrefix) && clear(path) == nil {
		_ = os.Remove(path) // a directory that is not empty remains
		_ = os.Remove(dir)
	}
	_ = os.Remove(note)
}

// open creates a socket at path to which no other user can connect at any time: it
// is created in a private directory and renamed to path, replacing a stale one.
func open(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "s")
	if len(made) > maxPath+7 {
		return nil, fmt.Errorf("the path %s is too long for a socket; set XDG_RUNTIME_DIR to a short one", path)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", made)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the socket is renamed; Close removes it
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// locate returns the path of the control socket of home.
func locate(home string) string {
	if raw, err := os.ReadFile(filepath.Join(home, PathName)); err == nil {
		if path := strings.TrimSpace(string(raw)); filepath.IsAbs(path) {
			return path
		}
	}
	return filepath.Join(home, SocketName)
}

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
