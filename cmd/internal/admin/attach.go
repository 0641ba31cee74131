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
	"hermesd/gateway/chat"
)

const (
	maxHas    = 64              // message IDs that a terminal may list as shown already
	writeWait = 5 * time.Second // a terminal that reads nothing for this long is detached
)

// attach connects a terminal to a conversation and serves it until it disconnects,
// is detached, or the handler is closed.
func (h *Handler) attach(w http.ResponseWriter, r *http.Request) {
	if !h.opts.Daemon.Running {
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
	c, err := h.opts.Daemon.Console.Attach(r.Context(), r.FormValue("chat"), has...)
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

// hijack takes over the connection and confirms the upgrade to the client.
func hijack(w http.ResponseWriter) (net.Conn, io.Reader, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("attach: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close() // the first error is returned
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
	kick chan struct{} // signals that a line may be done

	mu      sync.Mutex // guards what follows
	pending map[string]time.Time
}

// serve runs until the terminal disconnects, it cannot be written to, or the
// handler is closed. Then it sends the reason and stops its goroutines.
func (t *terminal) serve(in io.Reader) {
	ctx, cancel := context.WithCancelCause(t.h.ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	daemon := t.h.opts.Daemon
	hello := Hello{Version: t.h.opts.Version, Conversation: t.c.Conversation(), Commands: menu(daemon.Commands), Model: daemon.Status().Model}
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
	if errors.Is(why, console.ErrStopped) {
		t.reportLast()
	}
	if why != nil && !errors.Is(why, io.EOF) {
		if err := t.out.write(Down{Bye: why.Error()}); err != nil {
			t.h.opts.Log.Debug("cannot send goodbye to terminal", zap.Error(err))
		}
	}
	_ = t.conn.Close() // makes listen return; everything that can be written is written
	wg.Wait()
}

// reportLast reports how lines ended whose turns finished while the daemon was stopping. The
// store closes only after the terminals are detached.
func (t *terminal) reportLast() {
	ctx, cancel := context.WithTimeout(context.Background(), writeWait)
	defer cancel()
	if err := t.checkPending(ctx); err != nil {
		t.h.opts.Log.Debug("cannot report outcomes to terminal", zap.Error(err))
	}
}

// listen reads requests from the terminal. It returns io.EOF when the terminal
// disconnects.
func (t *terminal) listen(ctx context.Context, in io.Reader) error {
	err := scan(in, maxUp, func(raw []byte) error {
		var u up
		if err := json.Unmarshal(raw, &u); err != nil {
			return fmt.Errorf("decode terminal request: %w", err)
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
	if errors.Is(err, chat.ErrOutcomeUnknown) { // the terminal sends the line again under its ID
		return err
	}
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

// show writes the events of the conversation to the terminal.
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
