// Package connection keeps one socket to Slack open. The entry point is Run.
//
// When Slack asks to disconnect a socket, the next one is opened first, and the old
// one is read until it is empty. The library's socket mode is not used: it closes a
// socket on such a request, and does not acknowledge types that it does not know.
package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"go.uber.org/zap"

	"hermesd/adapters/internal/transport"
	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
	"hermesd/internal/secret"
)

// readLimit limits the size of one socket message. Slack's have a few thousand
// bytes.
const readLimit = 16 << 20

// First is the pause after a first failure: Slack expects a quick reconnect.
const First = 250 * time.Millisecond

var errLost = errors.New("socket was closed")

// Timeouts and intervals.
const (
	pingWait    = 30 * time.Second // a socket without a ping for this long is dead
	ackWithin   = 3 * time.Second
	drain       = 10 * time.Second // time limit for reading a replaced socket
	settle      = time.Second      // until Slack has noticed the end of a socket
	recount     = 90 * time.Second // until a possibly dead extra socket is counted again
	recountMore = 4 * time.Minute  // the same when an extra socket was found
	shortLife   = 10 * time.Second // a shorter socket lifetime counts as a failure
)

// A Handler receives the events of the sockets. Its methods must not block.
type Handler interface {
	// Take receives an envelope. ack acknowledges it to Slack after it is stored.
	Take(e inbound.Envelope, ack func() error)
	// Lost reports that there was no socket from since until now.
	Lost(since time.Time)
	// Set reports the connection state and its reason.
	Set(s chat.State, why string)
	// Shared reports that another process receives some of the events; "" means
	// that none does.
	Shared(why string)
	// Alive reports received data; Proof returns when data was last received.
	Alive()
	Proof() time.Time
}

// Options are the dependencies of Run. All except Socket and Proxy are required.
type Options struct {
	Handler Handler
	API     *slack.Client
	Wire    *apiclient.Client
	// Socket opens the connection of a socket, TLS included; nil means the network,
	// through the proxy.
	Socket func(ctx context.Context, network, address string) (net.Conn, error)
	Proxy  secret.Value
	// Last is when an earlier process was last connected; the zero Time means
	// never.
	Last time.Time
	Log  *zap.Logger
}

// Run keeps the account connected until ctx ends, and waits for its goroutines.
// It returns early only with a *chat.ConfigError.
func Run(ctx context.Context, o Options) error {
	d, err := dialer(o)
	if err != nil {
		return &chat.ConfigError{Platform: chat.Slack, Reason: err.Error()}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	k := &sockets{o: o, ctx: ctx, back: backoff.Backoff{First: First}, fail: fail, last: o.Last, dialer: d}
	k.mu.Lock()
	k.openLocked(0)
	k.mu.Unlock()
	<-ctx.Done()
	k.wg.Wait()
	if ce, ok := errors.AsType[*chat.ConfigError](context.Cause(ctx)); ok {
		return ce
	}
	return nil
}

// sockets keeps one socket open, and at most two while one is replaced.
type sockets struct {
	o      Options
	ctx    context.Context //nolint:containedctx // of the call of Run that owns this value
	fail   context.CancelCauseFunc
	dialer *websocket.Dialer
	wg     sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	cur  *socket    // the active socket
	next *socket    // the socket that is being opened
	old  *socket    // the socket that cur has replaced; it may have ended
	back backoff.Backoff
	more bool      // Slack counted more sockets than this process has
	last time.Time // time of the last sign of life of the last lost socket
}

type socket struct {
	stop context.CancelFunc
	done chan struct{} // closed when the socket has ended
	// The fields below are guarded by mu of its sockets.
	since  time.Time // time of its hello
	reason string    // the reason of Slack's disconnect request
}

// openLocked starts to open the next socket after d.
func (k *sockets) openLocked(d time.Duration) {
	if k.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(k.ctx)
	s := &socket{stop: stop, done: make(chan struct{})}
	k.next = s
	old := k.old
	k.wg.Go(func() {
		defer stop()
		if old != nil { // at most two sockets: the old one ends before the current one
			<-old.done
			d = max(d, settle)
		}
		err := backoff.Sleep(ctx, d)
		if err == nil {
			err = k.run(ctx, s)
		}
		close(s.done)
		k.ended(s, err)
	})
}

func dialer(o Options) (*websocket.Dialer, error) {
	d := &websocket.Dialer{
		HandshakeTimeout: 10 * time.Second,
		WriteBufferSize:  32 << 10, // Slack does not support fragmented messages
	}
	if o.Socket != nil {
		d.NetDialContext, d.NetDialTLSContext = o.Socket, o.Socket
		return d, nil
	}
	var err error
	d.NetDialContext = transport.NewDialer().DialContext
	d.Proxy, err = transport.Proxy(o.Proxy)
	return d, err
}

// run opens a socket and handles its messages until it ends.
func (k *sockets) run(ctx context.Context, s *socket) error {
	_, address, err := k.o.API.StartSocketModeContext(ctx)
	if err != nil {
		return err //nolint:wrapcheck // ended converts it
	}
	c, resp, err := k.dialer.DialContext(ctx, address, nil)
	if err != nil {
		return fmt.Errorf("open the socket: %w", err)
	}
	_ = resp.Body.Close() // it is empty
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	c.SetReadLimit(readLimit)
	if err := c.SetReadDeadline(time.Now().Add(pingWait)); err != nil {
		return errLost
	}
	c.SetPingHandler(func(data string) error {
		k.o.Handler.Alive()
		_ = c.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(ackWithin)) // reading notices a lost connection
		return c.SetReadDeadline(time.Now().Add(pingWait))
	})
	var writing sync.Mutex // the connection takes one writer at a time
	ack := func(id string) error {
		writing.Lock()
		defer writing.Unlock()
		if err := c.SetWriteDeadline(time.Now().Add(ackWithin)); err != nil {
			return err //nolint:wrapcheck // the caller adds the operation
		}
		return c.WriteJSON(map[string]string{"envelope_id": id}) //nolint:wrapcheck // as above
	}
	for {
		_, raw, err := c.ReadMessage()
		if ctx.Err() != nil {
			return ctx.Err() //nolint:wrapcheck // the caller canceled
		}
		if err != nil {
			return errLost
		}
		k.o.Handler.Alive()
		k.receive(s, raw, ack)
	}
}

// receive handles a message. An envelope of any type is passed on. Its
// acknowledgment is sent on the socket that delivered it, also when it is late
// and Slack has stopped waiting and delivers the event again.
func (k *sockets) receive(s *socket, raw []byte, ack func(id string) error) {
	var m struct {
		Type        string `json:"type"`
		Connections int    `json:"num_connections"`
		Reason      string `json:"reason"`
	}
	_ = json.Unmarshal(raw, &m) // what can be decoded
	env, ok := inbound.Open(raw)
	switch {
	case m.Type == "hello":
		k.hello(s, m.Connections)
	case m.Type == "disconnect":
		k.replace(s, m.Reason)
	case ok:
		k.o.Handler.Take(env, func() error { return ack(env.ID) })
	default:
		k.o.Log.Warn("cannot parse socket message: no envelope", zap.Int("bytes", len(raw)))
	}
}

// hello records that a socket is ready, and how many sockets Slack counts.
// Unless it replaces one that is still active, events may have been lost.
func (k *sockets) hello(s *socket, open int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next != s {
		return
	}
	k.countLocked(s, open)
	old := k.cur
	k.cur, k.next, k.old, s.since = s, nil, old, time.Now()
	if old == nil {
		k.o.Handler.Lost(k.last)
	} else {
		k.wg.Go(func() { // read until Slack closes it
			t := time.NewTimer(drain)
			defer t.Stop()
			select {
			case <-old.done:
			case <-t.C:
				old.stop()
			}
		})
	}
	k.o.Handler.Set(chat.Connected, "")
}

// countLocked compares the number of sockets that Slack counts with the number
// of this process. Further sockets belong to a dead process, for about a minute,
// or to a living one: then Slack delivers each event to only one of the
// processes.
func (k *sockets) countLocked(s *socket, open int) {
	ours := 1
	if k.cur != nil {
		ours++
	}
	if open <= ours {
		k.more = false
		k.o.Handler.Shared("")
		return
	}
	k.o.Log.Warn("Slack counts sockets of another process", zap.Int("open", open), zap.Int("ours", ours))
	if k.more { // it has lasted
		k.o.Handler.Shared("another process uses this app token, and Slack gives each message to only one of both; stop it, or give this daemon an app of its own")
	}
	again := recount
	if k.more {
		again = recountMore
	}
	k.more = true
	k.wg.Go(func() {
		if backoff.Sleep(k.ctx, again) == nil {
			k.replace(s, "sockets are counted again")
		}
	})
}

// replace opens another socket, because Slack asks to disconnect this one, or to
// get a new count.
func (k *sockets) replace(s *socket, reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.o.Log.Info("replacing socket", zap.String("reason", reason))
	s.reason = reason
	if k.cur == s && k.next == nil {
		k.openLocked(0)
	}
}

// ended records that a socket has ended, and opens the next one if there is
// none.
func (k *sockets) ended(s *socket, err error) {
	if ce := apierror.Socket(err); ce != nil {
		k.fail(ce)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return
	}
	var after time.Duration
	switch s {
	case k.cur:
		k.cur, k.last = nil, k.o.Handler.Proof()
		if time.Since(s.since) < shortLife {
			after = k.back.Next()
		} else {
			k.back.Reset()
			after = rand.N(First)
		}
	case k.next:
		k.next = nil
		after = k.back.Next()
		if flood, ok := errors.AsType[*slack.RateLimitedError](err); ok {
			after = max(after, flood.RetryAfter)
		}
	default:
		return // its successor is active
	}
	if k.old != nil && k.cur == nil {
		k.old.stop() // its remaining events are not awaited
	}
	why := k.o.Wire.Mask(endWords(s.reason, err))
	k.o.Log.Warn("cannot keep socket open", zap.String("err", why))
	if k.cur == nil {
		k.o.Handler.Set(chat.Retrying, why)
	}
	if k.next == nil {
		k.openLocked(after)
	}
}

// endWords describes why there is no socket.
func endWords(reason string, err error) string {
	switch {
	case reason == "too_many_websockets":
		return "Slack allows ten sockets for one app, and all are open; stop the other processes that use this app token, or give this daemon an app of its own"
	case reason == "link_disabled" || strings.Contains(apierror.Code(err), "socket_mode"):
		return "Socket Mode is switched off; switch it on under Socket Mode of the app"
	case errors.Is(err, errLost):
		return "the connection to Slack was lost"
	}
	se := apierror.SendError(err)
	if se.Outcome == chat.Uncertain || apierror.Code(err) != "" {
		return fmt.Sprintf("no socket to Slack: %v", err)
	}
	return "no socket to Slack: " + se.Reason
}
