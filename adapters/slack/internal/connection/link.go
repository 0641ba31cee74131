// Package connection keeps one socket to Slack open.
//
// One client of the library serves one socket and ends with it. When Slack asks to
// leave a socket, the next one is opened first, and the old one is read until it is
// empty.
package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
	"go.uber.org/zap"

	"hermesd/adapters/internal/backoff"
	"hermesd/adapters/internal/transport"
	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// readLimit bounds one message of a socket. Slack's are a few thousand bytes.
const readLimit = 16 << 20

// First is the pause after a first failure: Slack wants to be asked again soon.
const First = 250 * time.Millisecond

// errLost says that a socket has ended.
var errLost = errors.New("the socket was closed")

// How long things may take.
const (
	pingWait    = 30 * time.Second // without a ping, a socket is dead
	ackWithin   = 3 * time.Second
	drain       = 10 * time.Second // of a socket that has a successor
	settle      = time.Second      // until Slack has noticed that a socket is no more
	recount     = 90 * time.Second // until a socket that may be a dead one's is looked for again
	recountMore = 4 * time.Minute  // when it is known that there is one
	shortLife   = 10 * time.Second // a socket that ends sooner is no success
)

// An Handler is told what happens. None of its methods may wait for anything.
type Handler interface {
	// Take takes an envelope. ack tells Slack that it is stored.
	Take(e inbound.Envelope, ack func() error)
	// Lost says that there was no socket from since until now.
	Lost(since time.Time)
	// Set tells the state of the connection, and why.
	Set(s chat.State, why string)
	// Shared tells whether another process takes a part of the events; "": no.
	Shared(why string)
	// Alive says that something has just come in; Proof is when that was.
	Alive()
	Proof() time.Time
}

// Options are what a link needs. None may be left empty but Socket.
type Options struct {
	Handler Handler
	// Client makes the library's client over c.
	Client func(c Doer) *slack.Client
	Wire   *apiclient.Client
	Socket apiclient.Dial
	Proxy  secret.Value
	// Last is when an earlier process was last connected; zero: never.
	Last time.Time
	Log  *zap.Logger
}

// A Doer is an HTTP client as the library takes it.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Run keeps the account connected until ctx ends, and waits for whatever it has
// begun. It returns early only with a *chat.ConfigError.
func Run(ctx context.Context, o Options) error {
	proxy, err := transport.Proxy(o.Proxy)
	if err != nil {
		return &chat.ConfigError{Platform: chat.Slack, Reason: err.Error()}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	k := &sockets{o: o, ctx: ctx, back: backoff.Backoff{First: First}, fail: fail, last: o.Last, line: apiclient.SocketOptions{Socket: o.Socket, Proxy: proxy, Alive: o.Handler.Alive}}
	k.mu.Lock()
	k.openLocked(0)
	k.mu.Unlock()
	<-ctx.Done()
	k.wg.Wait()
	var ce *chat.ConfigError
	if errors.As(context.Cause(ctx), &ce) {
		return ce
	}
	return nil
}

// sockets keeps one socket open, and two while one takes the other's place:
// never more.
type sockets struct {
	o    Options
	ctx  context.Context //nolint:containedctx // that of the one call in which this lives
	fail context.CancelCauseFunc
	line apiclient.SocketOptions
	wg   sync.WaitGroup

	mu   sync.Mutex // guards what follows
	cur  *socket    // the one that carries
	next *socket    // the one that is being opened
	old  *socket    // the one that cur has replaced; it may have ended
	back backoff.Backoff
	more bool      // Slack counted more sockets than ours
	last time.Time // when the last socket that was lost showed that it lived
}

// A socket is one connection, and one client of the library.
type socket struct {
	stop context.CancelFunc
	done chan struct{} // closed when it is no more
	// mu of its sockets guards what follows.
	since  time.Time // of its hello
	reason string    // what Slack said when it asked to leave
}

// openLocked begins to open the next socket after d.
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
		if old != nil { // two at a time are enough, and this one ends before the present one
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

// run opens a socket and takes what it brings until it ends.
func (k *sockets) run(ctx context.Context, s *socket) error {
	line := k.line
	line.OnDisconnect = func(reason string) { k.leave(s, reason) }
	c := socketmode.New(k.o.Client(&once{Client: k.o.Wire}),
		socketmode.OptionDialer(line.Dialer()),
		socketmode.OptionPingInterval(pingWait),
		socketmode.OptionReadLimit(readLimit),
		socketmode.OptionLog(log.New(io.Discard, "", 0)),
	)
	ran := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ran <- c.RunContext(ctx) })
	err := k.pump(ctx, s, c, ran)
	s.stop()
	wg.Wait()
	return err
}

// pump takes the library's events as fast as they come.
func (k *sockets) pump(ctx context.Context, s *socket, c *socketmode.Client, ran <-chan error) error {
	for connected := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the end that was asked for
		case err := <-ran:
			return err
		case e := <-c.Events:
			switch e.Type {
			case socketmode.EventTypeConnecting:
				if connected {
					return errLost // the library would open another one; that is ours to do
				}
			case socketmode.EventTypeConnected:
				connected = true
			case socketmode.EventTypeHello:
				k.hello(s, e.Request.NumConnections)
			case socketmode.EventTypeConnectionError:
				if ce, ok := e.Data.(*slack.ConnectionErrorEvent); ok {
					return ce.ErrorObj
				}
			case socketmode.EventTypeEventsAPI, socketmode.EventTypeInteractive, socketmode.EventTypeSlashCommand:
				k.take(ctx, c, inbound.Envelope{Type: e.Request.Type, ID: e.Request.EnvelopeID, Payload: e.Request.Payload})
			case socketmode.EventTypeErrorBadMessage:
				// The library knows fewer types than Slack sends, and does not
				// acknowledge what it does not know.
				if bad, ok := e.Data.(*socketmode.ErrorBadMessage); ok {
					k.bad(ctx, c, bad)
				}
			}
		}
	}
}

func (k *sockets) bad(ctx context.Context, c *socketmode.Client, bad *socketmode.ErrorBadMessage) {
	env, ok := inbound.Open(bad.Message)
	if !ok {
		k.o.Log.Warn("cannot parse socket message: no envelope", zap.Error(bad.Cause))
		return
	}
	k.o.Log.Info("client library cannot parse envelope", zap.String("type", env.Type), zap.Error(bad.Cause))
	k.take(ctx, c, env)
}

// take puts an envelope into the queue. Its acknowledgement goes out on the
// socket that brought it; what is late goes out all the same, and Slack, which
// has given it up, sends the event again.
func (k *sockets) take(ctx context.Context, c *socketmode.Client, env inbound.Envelope) {
	k.o.Handler.Take(env, func() error {
		ctx, cancel := context.WithTimeout(ctx, ackWithin)
		defer cancel()
		return c.AckCtx(ctx, env.ID, nil) //nolint:wrapcheck // the caller says what it did
	})
}

// hello notes that a socket carries, and how many Slack counts. Unless it takes over from one that still
// does, time was lost.
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

// countLocked compares how many sockets Slack counts with our own. More of them
// are those of a dead process, for a minute or so, or of one that lives: then
// Slack gives each event to only one of us.
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
			k.leave(s, "sockets are counted again")
		}
	})
}

// leave opens another socket, because Slack asks to leave this one, or to count.
func (k *sockets) leave(s *socket, reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.o.Log.Info("replacing socket", zap.String("reason", reason))
	s.reason = reason
	if k.cur == s && k.next == nil {
		k.openLocked(0)
	}
}

// ended notes that a socket is no more, and opens the next one if there is
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
		var flood *slack.RateLimitedError
		if errors.As(err, &flood) {
			after = max(after, flood.RetryAfter)
		}
	default:
		return // its successor carries
	}
	if k.old != nil && k.cur == nil {
		k.old.stop() // nothing waits for what it may still bring
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

// endWords says why there is no socket.
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

// once is an HTTP client that opens one socket. The library would open the
// next one by itself, when it is not known yet whether there is one already.
type once struct {
	*apiclient.Client
	mu   sync.Mutex
	used bool
}

// Do implements the library's HTTP client.
func (o *once) Do(req *http.Request) (*http.Response, error) {
	o.mu.Lock()
	used := o.used
	o.used = true
	o.mu.Unlock()
	if used {
		return nil, errLost
	}
	return o.Client.Do(req)
}
