package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/console"
)

const (
	maxHas    = 64              // messages that a terminal may say it has
	writeWait = 5 * time.Second // a terminal that takes nothing for so long is detached
)

// attach joins a terminal to a conversation and serves it until it leaves, it
// is detached, or the handler closes.
func (h *Handler) attach(w http.ResponseWriter, r *http.Request) {
	if h.opts.Console == nil {
		h.fail(w, &Error{http.StatusServiceUnavailable, "no daemon is running here that a terminal could attach to"})
		return
	}
	if r.Header.Get("Upgrade") != upgrade {
		h.fail(w, &Error{http.StatusUpgradeRequired, "attaching speaks " + upgrade + "; is the client of another version?"})
		return
	}
	has := strings.FieldsFunc(r.FormValue("has"), func(r rune) bool { return r == ',' })
	if len(has) > maxHas {
		has = has[len(has)-maxHas:]
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.fail(w, &Error{http.StatusServiceUnavailable, console.ErrStopped.Error()})
		return
	}
	h.attached.Add(1)
	h.mu.Unlock()
	defer h.attached.Done()
	c, err := h.opts.Console.Attach(r.Context(), r.FormValue("chat"), has...)
	if err != nil {
		h.fail(w, &Error{http.StatusBadRequest, err.Error()})
		return
	}
	defer c.Close()
	conn, rest, err := hijack(w)
	if err != nil {
		h.fail(w, err)
		return
	}
	t := &terminal{h: h, c: c, conn: conn, pending: make(map[string]time.Time), kick: make(chan struct{}, 1)}
	t.out = &lines{w: deadlineWriter{conn}, mask: h.opts.Masker.Mask}
	t.serve(rest)
}

// hijack takes the connection over and says so to the other end.
func hijack(w http.ResponseWriter) (net.Conn, io.Reader, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("attach: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close() // the first error is the one that counts
		return nil, nil, fmt.Errorf("attach: %w", err)
	}
	_, err = deadlineWriter{conn}.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + "\r\n\r\n"))
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("attach: %w", err)
	}
	return conn, buf.Reader, nil
}

type deadlineWriter struct{ net.Conn }

func (w deadlineWriter) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

// A terminal is one attached connection.
type terminal struct {
	h    *Handler
	c    *console.Client
	conn net.Conn
	out  *lines
	kick chan struct{} // something happened that may end a line

	mu      sync.Mutex // guards what follows
	pending map[string]time.Time
}

// serve runs until the first of its three sides ends: what comes, what goes,
// and the daemon itself. Then it says why, and ends all of them.
func (t *terminal) serve(in io.Reader) {
	ctx, cancel := context.WithCancelCause(t.h.ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	hello := Hello{Version: t.h.opts.Version, Conversation: t.c.Conversation(), Commands: menu(t.h.opts.Commands)}
	if t.h.opts.Status != nil {
		hello.Model = t.h.opts.Status().Model
	}
	if err := t.out.write(Down{Hello: &hello}); err != nil {
		cancel(err)
	}
	wg.Go(func() { cancel(t.listen(ctx, in)) })
	wg.Go(func() { cancel(t.show(ctx)) })
	wg.Go(func() { cancel(t.watch(ctx)) })
	<-ctx.Done()
	why := context.Cause(ctx)
	if t.h.ctx.Err() != nil {
		why = console.ErrStopped
	}
	t.c.Close()
	if why != nil && !errors.Is(why, io.EOF) {
		if err := t.out.write(Down{Bye: why.Error()}); err != nil {
			t.h.opts.Log.Debug("terminal", zap.Error(err))
		}
	}
	_ = t.conn.Close() // lets listen end; the other end has all it can get
	wg.Wait()
}

// listen takes what the terminal says.
func (t *terminal) listen(ctx context.Context, in io.Reader) error {
	err := scan(in, maxUp, func(raw []byte) error {
		var u up
		if err := json.Unmarshal(raw, &u); err != nil {
			return fmt.Errorf("the terminal speaks another language: %w", err)
		}
		if u.Seen > 0 {
			t.c.Seen(u.Seen)
			t.poke()
		}
		if u.Say == nil {
			return nil
		}
		return t.say(ctx, *u.Say)
	})
	if err == nil {
		err = io.EOF
	}
	return err
}

func (t *terminal) say(ctx context.Context, l line) error {
	id, err := t.c.Say(ctx, l.ID, l.Text)
	taken := LineAccepted{ID: l.ID}
	if err != nil {
		taken.Error = err.Error()
	} else {
		t.mu.Lock()
		t.pending[id] = time.Now()
		t.mu.Unlock()
		defer t.poke()
	}
	return t.out.write(Down{Accepted: &taken})
}

// show writes what there is to show.
func (t *terminal) show(ctx context.Context) error {
	for {
		ev, err := t.c.Next(ctx)
		if err != nil {
			return err
		}
		if err := t.out.write(Down{Event: &ev}); err != nil {
			return fmt.Errorf("%w: %w", console.ErrSlow, err)
		}
	}
}

func (t *terminal) poke() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}
