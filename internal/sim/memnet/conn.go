package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes one end may write ahead of the other end's reads.
const window = 64 << 10

// Conns returns the two ends of an in-memory connection. It behaves as TCP
// does: a write returns when the bytes are in transit, not when they were read;
// after a close the other end reads the bytes in transit and then gets io.EOF;
// bytes that the closed end had not read are lost. All waiting is durably
// blocking in the sense of testing/synctest. Both ends report name as their
// address.
func Conns(name string) (near, far net.Conn) {
	there, back := newStream(), newStream()
	return &conn{name: address(name), in: back, out: there}, &conn{name: address(name), in: there, out: back}
}

// conn is one end of a connection.
type conn struct {
	name    address
	in, out *stream
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // only errors of this package
		return err
	}
	return &net.OpError{Op: op, Net: "memory", Addr: c.name, Err: err}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.in.closeReader()
	c.out.closeWriter()
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.name }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.name }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readEnd, t)
	c.out.setDeadline(&c.out.writeEnd, t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readEnd, t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeEnd, t)
	return nil
}

// stream is one direction of a connection.
type stream struct {
	mu       sync.Mutex // guards the fields below
	change   *sync.Cond
	buf      []byte
	written  bool // the write end is closed
	unread   bool // the read end is closed
	readEnd  deadline
	writeEnd deadline
}

// A deadline is the time at which waiting ends; the mutex of its stream guards
// it.
type deadline struct {
	at    time.Time
	timer *time.Timer // wakes the waiting goroutines
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newStream() *stream {
	s := &stream{}
	s.change = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.unread:
			return 0, net.ErrClosed
		case s.readEnd.passed():
			return 0, os.ErrDeadlineExceeded
		case len(s.buf) > 0:
			n := copy(p, s.buf)
			s.buf = append(s.buf[:0], s.buf[n:]...)
			s.change.Broadcast()
			return n, nil
		case s.written:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.change.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for {
		switch {
		case s.written:
			return done, net.ErrClosed
		case s.unread:
			return done, syscall.EPIPE
		case s.writeEnd.passed():
			return done, os.ErrDeadlineExceeded
		}
		n := min(len(p)-done, window-len(s.buf))
		s.buf = append(s.buf, p[done:done+n]...)
		done += n
		if n > 0 {
			s.change.Broadcast()
		}
		if done == len(p) {
			return done, nil
		}
		s.change.Wait()
	}
}

func (s *stream) closeReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread, s.buf = true, nil
	s.readEnd.stop()
	s.change.Broadcast()
}

func (s *stream) closeWriter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
	s.writeEnd.stop()
	s.change.Broadcast()
}

func (s *stream) setDeadline(d *deadline, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	d.at = t
	if d.passed() || t.IsZero() {
		s.change.Broadcast()
		return
	}
	d.timer = time.AfterFunc(time.Until(t), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.change.Broadcast()
	})
}

// stop stops the timer.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
