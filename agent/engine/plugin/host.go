// Package plugin runs an external program as the context engine: a child
// process that speaks JSON-RPC 2.0, one message per line, on its standard input
// and output. The main types are Host, which runs the process for all sessions,
// and Engine, for one session.
//
// The child is not trusted, and no call waits longer than its timeout. It says
// which messages are archived and what replaces them; it cannot change the rest
// of a transcript. If it hangs, dies, floods or gives an invalid answer, it is
// ended with all processes that it started, the built-in engine makes that
// compaction, and the user is notified.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const protocolVersion = 1

const startTimeout = 10 * time.Second

// A program that fails is started again after a delay that doubles with each
// consecutive failure.
const (
	minRetryDelay = 5 * time.Second
	maxRetryDelay = 10 * time.Minute
)

var errTimeout = errors.New("it did not answer in time")

// errRetryDelayed means that the program may not be started again yet.
var errRetryDelayed = errors.New("it failed before and is tried again later")

// ErrClosed means that the host was closed.
var ErrClosed = errors.New("plugin: the engine was ended")

// A Host runs the program of one manifest for all sessions: it starts the
// program when it is needed and again after a failure. Its methods may be
// called from any goroutine.
type Host struct {
	m   Manifest
	log *zap.Logger
	// childLock is held while the child is started or ended.
	childLock chan struct{}

	mu                  sync.Mutex // guards what follows
	child               *child
	failures            int // total
	consecutiveFailures int
	retryAt             time.Time // no start before
	lastErr             error
	closed              bool
}

// NewHost returns a Host. It does not start the program.
func NewHost(m Manifest, log *zap.Logger) *Host {
	return &Host{m: m, log: log.Named("engine").With(zap.String("engine", m.Name)), childLock: make(chan struct{}, 1)}
}

// Failures returns the number of failures of the program, and the last one.
func (h *Host) Failures() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures, h.lastErr
}

// Close ends the program and all processes that it started.
func (h *Host) Close() {
	h.childLock <- struct{}{}
	defer func() { <-h.childLock }()
	h.mu.Lock()
	c := h.child
	h.child, h.closed = nil, true
	h.mu.Unlock()
	if c != nil {
		c.kill(ErrClosed)
	}
}

// call sends a request to the program, which it starts if necessary. An error
// other than an *rpcError or the end of ctx is counted as a failure of the
// program.
func (h *Host) call(ctx context.Context, method string, params, result any) error {
	c, err := h.runningChild(ctx)
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
		h.consecutiveFailures = 0
		h.mu.Unlock()
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	h.dropChild(c, err)
	return err
}

// runningChild returns the child, which it starts if necessary.
func (h *Host) runningChild(ctx context.Context) (*child, error) {
	select {
	case h.childLock <- struct{}{}:
		defer func() { <-h.childLock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h.mu.Lock()
	c, closed, until := h.child, h.closed, h.retryAt
	h.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case c != nil:
		return c, nil
	case time.Now().Before(until):
		return nil, errRetryDelayed
	}
	c, err := startChild(h.m)
	if err == nil {
		err = h.handshake(ctx, c)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.recordFailure(err)
		}
		return nil, err
	}
	h.mu.Lock()
	h.child = c
	h.mu.Unlock()
	return c, nil
}

// handshake checks that both sides speak the same protocol version; otherwise
// the child is ended.
func (h *Host) handshake(ctx context.Context, c *child) error {
	timed, cancel := context.WithTimeoutCause(ctx, min(startTimeout, h.m.Timeout), errTimeout)
	defer cancel()
	var answer struct {
		Protocol int `json:"protocol"`
	}
	err := c.call(timed, "initialize", map[string]any{"protocol": protocolVersion, "name": h.m.Name}, &answer)
	if err == nil && answer.Protocol != protocolVersion {
		err = fmt.Errorf("it speaks version %d of the protocol, not %d", answer.Protocol, protocolVersion)
	}
	if err != nil {
		c.kill(err)
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

func (h *Host) dropChild(c *child, why error) {
	h.mu.Lock()
	mine := h.child == c
	if mine {
		h.child = nil
	}
	h.mu.Unlock()
	c.kill(why)
	if mine { // other waiting calls must not count it again
		h.recordFailure(why)
	}
}

func (h *Host) recordFailure(why error) {
	h.mu.Lock()
	h.failures++
	h.consecutiveFailures++
	h.lastErr = why
	delay := min(minRetryDelay<<min(h.consecutiveFailures-1, 10), maxRetryDelay)
	h.retryAt = time.Now().Add(delay)
	n := h.failures
	h.mu.Unlock()
	h.log.Warn("context engine failed", zap.Error(why), zap.Int("failures", n), zap.Duration("rest", delay))
}

// notify sends a notification if the program is running.
func (h *Host) notify(method string, params any) {
	h.mu.Lock()
	c := h.child
	h.mu.Unlock()
	if c != nil {
		c.notify(method, params)
	}
}
