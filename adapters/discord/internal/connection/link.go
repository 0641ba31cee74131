// Package connection keeps one account connected to Discord's gateway, through
// the library and a frame filter. A lost connection is resumed; if that is not
// possible, a new session is started, as often as Discord allows. The entry
// point is Run.
package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"
	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/framefilter"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

// intents are the events to receive: guilds, and messages in guilds and direct
// chats with their content.
const intents = discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages | discordgo.IntentMessageContent

const (
	// identifyGap is the minimum time between two identifies of a bot.
	identifyGap = 5 * time.Second
	// askLimit limits the duration of the call that asks whether a session may
	// start.
	askLimit = 10 * time.Second
	// handshakeLimit limits the time until hello.
	handshakeLimit = 20 * time.Second
	// resumeTries is the number of failed resumes after which a session is given
	// up.
	resumeTries = 5
)

// Options are the dependencies of Run.
type Options struct {
	Wire *apiclient.Client
	Log  *zap.Logger
	// Dial connects to the gateway, with TLS if secure.
	Dial func(ctx context.Context, network, address string, secure bool) (net.Conn, error)
	// Push queues an event. It is called by the library's reader and must not
	// block.
	Push func(kind string, raw json.RawMessage)
	// OnReady is called with READY before it is pushed.
	OnReady func(ready json.RawMessage)
	// OnAlive is called at each sign of life.
	OnAlive func()
	// State is called at each change of the connection state, with the reason.
	State func(s chat.State, why string)
}

// A connector keeps an account connected.
type connector struct {
	o Options

	back       backoff.Backoff
	session    *session // to resume; nil if none
	failures   int      // consecutive failed resumes although the gateway was reached
	identified time.Time
}

// A session is one gateway session, over one or more connections.
type session struct {
	o     Options
	lib   *discordgo.Session
	lost  chan struct{} // the library has closed a connection
	begun atomic.Bool   // READY was received
	live  atomic.Bool   // READY or RESUMED was received on this connection

	mu  sync.Mutex // guards the fields below
	tap *framefilter.Conn
}

// Run keeps the account connected until ctx ends. It returns early only with an
// error that the operator has to repair.
func Run(ctx context.Context, o Options) *chat.ConfigError {
	l := &connector{o: o}
	for ctx.Err() == nil {
		if l.session == nil {
			if err := l.begin(ctx); err != nil {
				if ce, ok := errors.AsType[*chat.ConfigError](err); ok {
					return ce
				}
				continue // begin has waited already
			}
		}
		end, live, err := l.session.carry(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if why := apierror.FinalClose(end.Code); why != "" {
			return &chat.ConfigError{Platform: chat.Discord, Reason: why}
		}
		l.after(ctx, end, live, err)
	}
	return nil
}

// begin prepares a session that will identify, as soon as Discord allows it.
// Before it returns an error, it waits for the required delay.
func (l *connector) begin(ctx context.Context) error {
	err := l.mayIdentify(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if apierror.Status(err) == http.StatusUnauthorized {
			return &chat.ConfigError{Platform: chat.Discord, Reason: apierror.BadToken}
		}
		se := apierror.SendError(err)
		l.o.Log.Warn("cannot connect to gateway", zap.Error(err))
		l.o.State(chat.Retrying, se.Reason)
		_ = backoff.Sleep(ctx, max(se.RetryAfter, l.back.Next())) // returns early when ctx ends
		return err
	}
	s := &session{o: l.o, lost: make(chan struct{}, 1)}
	if s.lib, err = l.o.Wire.Session(ctx); err != nil {
		return &chat.ConfigError{Platform: chat.Discord, Reason: err.Error()}
	}
	s.lib.Identify.Intents = intents
	s.lib.Dialer = &websocket.Dialer{
		HandshakeTimeout: handshakeLimit, NetDialContext: s.dial(ctx, false), NetDialTLSContext: s.dial(ctx, true),
	}
	s.lib.AddHandler(s.take)
	s.lib.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) {
		select {
		case s.lost <- struct{}{}:
		default:
		}
	})
	l.session, l.identified = s, time.Now()
	return nil
}

// mayIdentify waits until Discord allows one more session.
func (l *connector) mayIdentify(ctx context.Context) error {
	if err := backoff.Sleep(ctx, max(0, time.Until(l.identified.Add(identifyGap)))); err != nil {
		return err
	}
	var g struct {
		Limit struct {
			Remaining *int  `json:"remaining"`
			After     int64 `json:"reset_after"` // milliseconds
		} `json:"session_start_limit"`
	}
	actx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if err := l.o.Wire.Do(actx, apiclient.Call{Method: "GET", Path: "gateway/bot", Bucket: "gateway"}, &g); err != nil {
		return err
	}
	if left := g.Limit.Remaining; left != nil && *left <= 0 {
		after := max(time.Duration(g.Limit.After)*time.Millisecond, time.Second)
		why := fmt.Sprintf("Discord takes no more sessions of this bot for %v; find out what makes it connect so often", after.Round(time.Second))
		l.o.Log.Error("cannot start gateway session", zap.String("err", why))
		l.o.State(chat.Retrying, why)
		return backoff.Sleep(ctx, after)
	}
	return nil
}

// dial returns the library's dial function: connections to the gateway with a
// frame filter.
func (s *session) dial(run context.Context, secure bool) apiclient.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(run, cancel)()
		c, err := s.o.Dial(ctx, network, address, secure)
		if err != nil {
			return nil, err
		}
		t := framefilter.New(c, s.o.OnAlive)
		s.mu.Lock()
		s.tap = t
		s.mu.Unlock()
		if run.Err() != nil {
			_ = t.Close()
		}
		return t, nil
	}
}

func (s *session) conn() *framefilter.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tap
}

// carry opens a connection and returns when it has ended, with the gateway's
// reason. live reports whether the session was started or resumed on it.
func (s *session) carry(ctx context.Context) (end framefilter.End, live bool, err error) {
	s.mu.Lock()
	s.tap = nil
	s.mu.Unlock()
	s.live.Store(false)
	select {
	case <-s.lost: // of the previous connection
	default:
	}
	defer context.AfterFunc(ctx, func() {
		if c := s.conn(); c != nil {
			c.SendClose()
		}
	})()
	if err = s.lib.Open(); err == nil {
		<-s.lost
	}
	if c := s.conn(); c != nil {
		_ = c.Close()
		end = c.End()
	}
	return end, s.live.Load(), err
}

// take passes an event of the library on. It runs on the library's reader, so it
// neither waits nor makes calls.
func (s *session) take(_ *discordgo.Session, e *discordgo.Event) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("cannot handle event: panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		}
	}()
	kind := strings.TrimPrefix(e.Type, framefilter.Prefix)
	switch kind {
	case "READY":
		s.begun.Store(true)
		s.o.OnReady(e.RawData)
		fallthrough
	case "RESUMED":
		s.live.Store(true)
		s.o.State(chat.Connected, "")
	}
	s.o.Push(kind, e.RawData)
}

// after decides how to continue when a connection has ended, and waits until
// then.
func (l *connector) after(ctx context.Context, end framefilter.End, live bool, err error) {
	why := reason(end, err)
	l.o.Log.Warn("connection ended", zap.String("reason", why), zap.Bool("live", live))
	l.o.State(chat.Retrying, why)
	switch {
	case live:
		l.failures = 0
		l.back.Reset()
	case end.HelloReceived:
		l.failures++
	}
	rest := time.Duration(0)
	switch {
	case end.Invalid && !end.Resumable:
		l.session, rest = nil, time.Second+rand.N(4*time.Second)
	case end.Code == 4003 || end.Code == 4005 || end.Code == 4007 || end.Code == 4009:
		l.session = nil
	case !l.session.begun.Load() || l.failures >= resumeTries:
		l.session, l.failures = nil, 0
	}
	if !live {
		rest = max(rest, l.back.Next())
	}
	_ = backoff.Sleep(ctx, rest) // returns early when ctx ends
}

func reason(end framefilter.End, err error) string {
	switch {
	case end.Code != 0:
		return strings.TrimSpace(fmt.Sprintf("Discord closed the connection (%d %s)", end.Code, end.Text))
	case end.Reconnect:
		return "Discord asks to connect again"
	case end.Invalid:
		return "Discord has given the session up; a new one begins, and what was missed is read from the history"
	case end.Silent:
		return "no answer to a heartbeat; the connection was cut and is rebuilt"
	case errors.Is(err, websocket.ErrBadHandshake):
		return "the gateway refuses the connection"
	case err != nil:
		return "Discord could not be reached: " + plainError(err)
	}
	return "the connection broke"
}

// plainError returns an error's text without addresses of calls, which may
// contain secrets.
func plainError(err error) string {
	if we, ok := errors.AsType[*apiclient.Error](err); ok {
		return we.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error()
	}
	return err.Error()
}
