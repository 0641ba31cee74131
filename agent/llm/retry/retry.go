// Package retry implements a provider that retries failed calls and falls back to other
// targets.
//
//	        ┌─────────── temporary failure: wait, retry ───────────┐
//	        ▼                                                      │
//	target 1 ──► answer      permanent failure or retries used ──► target 2 ──► …
//	        │
//	        └──► context overflow, content policy: returned at once
//
// Waits start at two seconds and double up to a minute, plus a random part of up to one
// half. A wait that the service asked for is observed exactly, up to a limit. Everything
// that was streamed before a Notice is void.
package retry

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"hermesd/agent/llm"
	"hermesd/internal/backoff"
)

// A Target is a model of a provider.
type Target struct {
	Provider llm.Provider
	Model    string // "": the model of the request
	// Limits, if not nil, keeps the output limits of models that the service has named.
	Limits OutputLimits
}

// OutputLimits keeps the output limits of models (llm.Request.OutputLimit). Its methods may be
// called from any goroutine.
type OutputLimits interface {
	OutputLimit(model string) int
	SetOutputLimit(model string, tokens int)
}

func (t Target) name() string { return t.Provider.Name() + "/" + t.Model }

// Options configure the number and timing of retries. The zero Options are the defaults.
type Options struct {
	Retries int           // of one target after the first attempt; 0: 3, negative: none
	First   time.Duration // wait before the first retry; 0: 2 seconds
	Most    time.Duration // longest wait without a hint of the service; 0: 1 minute
	MaxHint time.Duration // longest wait that a service may ask for; 0: 10 minutes
	Total   time.Duration // from the first attempt to the start of the last; 0: 30 minutes
	// Chance returns random numbers in [0,1); nil: math/rand.
	Chance func() float64
}

// A Provider calls its targets in order until one answers. Each Stream begins with the
// first target again; those of a Turn do not. Its methods may be called from any goroutine.
type Provider struct {
	targets []Target
	o       Options
}

// New returns a provider of at least one target. Duplicate targets are removed.
func New(targets []Target, o Options) *Provider {
	if len(targets) == 0 {
		panic("retry: no targets") // a broken invariant of the wiring
	}
	switch {
	case o.Retries == 0:
		o.Retries = 3
	case o.Retries < 0:
		o.Retries = 0
	}
	o.First = cmp.Or(o.First, 2*time.Second)
	o.Most = cmp.Or(o.Most, time.Minute)
	o.MaxHint = cmp.Or(o.MaxHint, 10*time.Minute)
	o.Total = cmp.Or(o.Total, 30*time.Minute)
	if o.Chance == nil {
		o.Chance = rand.Float64
	}
	p := &Provider{o: o}
	visited := map[string]bool{}
	for _, t := range targets {
		if !visited[t.name()] {
			visited[t.name()] = true
			p.targets = append(p.targets, t)
		}
	}
	return p
}

// Name implements llm.Provider. It returns the name of the first target.
func (p *Provider) Name() string { return p.targets[0].Provider.Name() }

func (p *Provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return p.Turn().Stream(ctx, r)
}

// Turn returns a provider for the calls of one turn. After a fallback it keeps using the
// target that answered, so that a turn does not call an unavailable target before each
// answer.
func (p *Provider) Turn() llm.Provider { return &Turn{p: p} }

var _ llm.TurnScoped = (*Provider)(nil)

// A Turn is a Provider for the calls of one turn.
type Turn struct {
	p           *Provider
	mu          sync.Mutex // guards what follows
	targetIndex int        // index of the target that is called first
}

// Name implements llm.Provider. It returns the name of the target that is called next.
func (t *Turn) Name() string { return t.p.targets[t.first()].Provider.Name() }

func (t *Turn) first() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.targetIndex
}

func (t *Turn) advanceTo(at int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.targetIndex = max(t.targetIndex, at)
}

// Stream implements llm.Provider. If no target answers, the error is that of the first
// target called; the notices report the others.
func (t *Turn) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		c := &call{p: t.p, ctx: ctx, r: r, yield: yield, targetIndex: t.first(), deadline: time.Now().Add(t.p.o.Total)}
		err := c.run()
		if errors.Is(err, errReaderStopped) {
			return
		}
		t.advanceTo(c.targetIndex)
		if err != nil {
			yield(nil, err)
		}
	}
}

var errReaderStopped = errors.New("retry: enough")

type call struct {
	p           *Provider
	ctx         context.Context
	r           *llm.Request
	yield       func(llm.Event, error) bool
	targetIndex int // index of the target
	tries       int // its failed attempts
	limit       int // OutputLimit of the next request to the target; 0: that of Target.Limits
	deadline    time.Time
	reason      error // of the first target
}

// run calls targets until one answers, and returns the error if none does.
func (c *call) run() error {
	for {
		err := c.try()
		if err == nil || errors.Is(err, errReaderStopped) {
			return err
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		e, ok := errors.AsType[*llm.Error](err)
		if !ok {
			return err
		}
		c.tries++
		if err := c.prepareNext(e); err != nil {
			return err
		}
	}
}

// prepareNext prepares the next attempt after e, or returns the error if there is none.
func (c *call) prepareNext(e *llm.Error) error {
	move := c.nextMove(e)
	if move == retrySame {
		if wait, ok := c.backoff(e); ok {
			return c.pause(wait, e)
		}
	}
	switch {
	case move == retryShorter:
		c.limit = c.learnLimit(e)
		return c.emit(llm.Notice{Retry: c.tries, Err: e})
	case move == giveUp:
		return e
	case c.targetIndex+1 == len(c.p.targets):
		return cmp.Or(c.reason, error(e))
	}
	c.reason = cmp.Or(c.reason, error(e))
	c.targetIndex++
	c.tries, c.limit = 0, 0
	return c.emit(llm.Notice{Fallback: c.p.targets[c.targetIndex].name(), Err: e})
}

// learnLimit returns the output limit of the next request after e, and keeps that of the model.
func (c *call) learnLimit(e *llm.Error) int {
	if e.OutputLimit == 0 {
		return e.MaxTokens - margin
	}
	if t := c.p.targets[c.targetIndex]; t.Limits != nil {
		t.Limits.SetOutputLimit(cmp.Or(t.Model, c.r.Model), e.OutputLimit)
	}
	return e.OutputLimit
}

// A move is what to do after a failure.
type move int

const (
	retrySame    move = iota // the same call after a wait
	retryShorter             // the same call at once, with the MaxTokens that the target allows
	fallBack                 // call the next target
	giveUp                   // no retry or fallback helps
)

func (c *call) nextMove(e *llm.Error) move {
	last := c.targetIndex+1 == len(c.p.targets)
	switch e.Class {
	case llm.ContextOverflow, llm.TooLarge, llm.ImageTooLarge, llm.PrefixCheck, llm.ContentPolicy:
		return giveUp
	case llm.Format:
		if e.MaxTokens > margin && c.limit == 0 {
			return retryShorter
		}
		return fallBack
	case llm.Auth, llm.Billing, llm.NotFound:
		return fallBack
	case llm.RateLimit:
		if !last {
			return fallBack
		}
	case llm.Timeout, llm.Overloaded:
		if !last && c.tries >= 2 {
			return fallBack
		}
	}
	if c.tries > c.p.o.Retries {
		return fallBack
	}
	return retrySame
}

// margin is the number of tokens kept free below a limit that depends on the length of the
// request.
const margin = 64

// backoff returns the delay before the next attempt, and whether the total time allows it.
func (c *call) backoff(e *llm.Error) (time.Duration, bool) {
	o := c.p.o
	d := e.After
	if d > o.MaxHint {
		return 0, false
	}
	if d <= 0 {
		d = min(o.First<<min(c.tries-1, 16), o.Most)
		d += time.Duration(o.Chance() * float64(d) / 2)
	}
	return d, !time.Now().Add(d).After(c.deadline)
}

func (c *call) pause(d time.Duration, e *llm.Error) error {
	if err := c.emit(llm.Notice{Retry: c.tries, After: d, Err: e}); err != nil {
		return err
	}
	if backoff.Sleep(c.ctx, d) != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

func (c *call) emit(e llm.Event) error {
	if !c.yield(e, nil) {
		return errReaderStopped
	}
	return nil
}

// try calls the target once and passes its events on. A sequence that ends without Done is
// a broken stream.
func (c *call) try() error {
	t := c.p.targets[c.targetIndex]
	r := *c.r
	r.Model = cmp.Or(t.Model, r.Model)
	switch {
	case c.limit > 0:
		r.OutputLimit = c.limit
	case t.Limits != nil:
		r.OutputLimit = t.Limits.OutputLimit(r.Model)
	}
	for e, err := range t.Provider.Stream(c.ctx, &r) {
		if err != nil {
			return err
		}
		wanted := c.yield(e, nil)
		if _, ok := e.(llm.Done); ok { // complete, even if the reader stops here
			return nil
		}
		if !wanted {
			return errReaderStopped
		}
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return &llm.Error{Class: llm.Network, Provider: t.Provider.Name(), Message: "the stream ended before the answer was complete"}
}
