// Package plugin lets a program of its own be the context engine: a child
// process that speaks JSON-RPC 2.0, one message a line, on its standard input
// and output.
//
// The child is never trusted and never waited for longer than its timeout. It
// says which messages are to be archived and what stands in their place;
// everything else of a transcript does not go through its hands. Where it
// hangs, dies, floods or answers what does not fit, it is ended with all that
// it has started, the built-in engine makes that pass, and people are told.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// protocol is the version of what is spoken.
const protocol = 1

// startTime is the most that a start may take.
const startTime = 10 * time.Second

// A program that fails is not started again at once: after a pause that
// doubles with each failure in a row.
const (
	firstRest = 5 * time.Second
	lastRest  = 10 * time.Minute
)

// errTimeout says that an answer did not come in time.
var errTimeout = errors.New("it did not answer in time")

// errResting says that the program is not started again yet.
var errResting = errors.New("it failed before and is tried again later")

// ErrClosed says that the host was closed.
var ErrClosed = errors.New("plugin: the engine was ended")

// A Host runs the program of one manifest for all sessions: it is started when
// it is needed and again after it failed. Its methods may be called from any
// goroutine.
type Host struct {
	m   Manifest
	log *zap.Logger
	// turn is held by who starts or ends the child.
	turn chan struct{}

	mu       sync.Mutex // guards what follows
	child    *child
	failures int // in all
	inRow    int
	until    time.Time // it rests
	last     error
	closed   bool
}

// NewHost returns a Host. It starts nothing.
func NewHost(m Manifest, log *zap.Logger) *Host {
	return &Host{m: m, log: log.Named("engine").With(zap.String("engine", m.Name)), turn: make(chan struct{}, 1)}
}

// Manifest is what the host runs.
func (h *Host) Manifest() Manifest { return h.m }

// Failures returns how often the program has failed, and how last.
func (h *Host) Failures() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures, h.last
}

// Close ends the program and all that it has started.
func (h *Host) Close() {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.mu.Lock()
	c := h.child
	h.child, h.closed = nil, true
	h.mu.Unlock()
	if c != nil {
		c.kill(ErrClosed)
	}
}

// call asks the program, which it starts if need be. What it returns beside an
// *rpcError and the end of ctx is a failure of the program, and counted.
func (h *Host) call(ctx context.Context, method string, params, result any) error {
	c, err := h.running(ctx)
	if err != nil {
		return err
	}
	timed, cancel := context.WithTimeoutCause(ctx, h.m.Timeout, errTimeout)
	defer cancel()
	err = c.call(timed, method, params, result)
	var said *rpcError
	switch {
	case err == nil || errors.As(err, &said):
		h.mu.Lock()
		h.inRow = 0
		h.mu.Unlock()
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	h.failed(c, err)
	return err
}

// running returns the child, started if need be.
func (h *Host) running(ctx context.Context) (*child, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h.mu.Lock()
	c, closed, until := h.child, h.closed, h.until
	h.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case c != nil:
		return c, nil
	case time.Now().Before(until):
		return nil, errResting
	}
	c, err := start(h.m)
	if err == nil {
		err = h.handshake(ctx, c)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.count(err)
		}
		return nil, err
	}
	h.mu.Lock()
	h.child = c
	h.mu.Unlock()
	return c, nil
}

// handshake makes sure that both speak the same; a child that does not is ended.
func (h *Host) handshake(ctx context.Context, c *child) error {
	timed, cancel := context.WithTimeoutCause(ctx, min(startTime, h.m.Timeout), errTimeout)
	defer cancel()
	var answer struct {
		Protocol int `json:"protocol"`
	}
	err := c.call(timed, "initialize", map[string]any{"protocol": protocol, "name": h.m.Name}, &answer)
	if err == nil && answer.Protocol != protocol {
		err = fmt.Errorf("it speaks version %d of the protocol, not %d", answer.Protocol, protocol)
	}
	if err != nil {
		c.kill(err)
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// failed ends a child that is of no use any more.
func (h *Host) failed(c *child, why error) {
	h.mu.Lock()
	mine := h.child == c
	if mine {
		h.child = nil
	}
	h.mu.Unlock()
	c.kill(why)
	if mine { // others who waited for it do not count it again
		h.count(why)
	}
}

func (h *Host) count(why error) {
	h.mu.Lock()
	h.failures++
	h.inRow++
	h.last = why
	rest := min(firstRest<<min(h.inRow-1, 10), lastRest)
	h.until = time.Now().Add(rest)
	n := h.failures
	h.mu.Unlock()
	h.log.Warn("the context engine failed", zap.Error(why), zap.Int("failures", n), zap.Duration("rest", rest))
}

// tell notifies the program if it runs.
func (h *Host) tell(method string, params any) {
	h.mu.Lock()
	c := h.child
	h.mu.Unlock()
	if c != nil {
		c.tell(method, params)
	}
}
