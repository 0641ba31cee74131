// Package retry makes providers try again, and fall back to others.
//
//	        ┌────────────── temporary: wait, try again ──────────────┐
//	        ▼                                                        │
//	target 1 ──► answer      refused for good, or tried enough ──► target 2 ──► …
//	        │
//	        └──► too long, refused for its content: returned at once
//
// Waits grow from two seconds, doubled each time, up to a minute, with up to
// half as much again by chance. A wait that the service asked for is kept to
// the letter, up to a limit. Whatever was streamed before a Notice is void.
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
)

// A Target is a model of a provider.
type Target struct {
	Provider llm.Provider
	Model    string // "": that of the request
	// CacheTTL replaces the request's where it is not nil.
	CacheTTL *string
}

func (t Target) name() string { return t.Provider.Name() + "/" + t.Model }

// Options say how often and how long to try. The zero Options are the defaults.
type Options struct {
	Retries int           // of one target after its first try; 0: 3, negative: none
	First   time.Duration // wait before the first retry; 0: 2 seconds
	Most    time.Duration // the longest wait of our own; 0: a minute
	MaxHint time.Duration // the longest wait a service may ask for; 0: 10 minutes
	Total   time.Duration // from the first try to the last; 0: 30 minutes
	// Chance returns numbers from [0,1); nil: real chance.
	Chance func() float64
}

// A Provider asks its targets in order until one answers. Each call begins with
// the first one again; a Turn does not. Its methods may be called from any
// goroutine.
type Provider struct {
	targets []Target
	o       Options
}

// New returns a provider of at least one target. Targets that stand there twice
// are asked once.
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

// Name implements llm.Provider; it is the name of the first target.
func (p *Provider) Name() string { return p.targets[0].Provider.Name() }

// Stream implements llm.Provider.
func (p *Provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return p.Turn().Stream(ctx, r)
}

// Turn returns a provider for the calls of one turn: once it fell back it stays
// with the target that answers, so that a turn is not spent on asking a target
// that is down before each call.
func (p *Provider) Turn() llm.Provider { return &Turn{p: p} }

var _ llm.TurnScoped = (*Provider)(nil)

// A Turn is a Provider for one turn.
type Turn struct {
	p  *Provider
	mu sync.Mutex // guards what follows
	at int        // index of the target that is asked first
}

// Name implements llm.Provider; it is the name of the target that is asked next.
func (t *Turn) Name() string { return t.p.targets[t.first()].Provider.Name() }

func (t *Turn) first() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

func (t *Turn) stay(at int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = max(t.at, at)
}

// Stream implements llm.Provider. The error of a call that nobody answered is
// that of the first target asked; the notices tell of the others.
func (t *Turn) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		c := &call{p: t.p, ctx: ctx, r: r, yield: yield, at: t.first(), end: time.Now().Add(t.p.o.Total)}
		err := c.run()
		if errors.Is(err, errEnough) {
			return
		}
		t.stay(c.at)
		if err != nil {
			yield(nil, err)
		}
	}
}

// errEnough says that the reader of the events wants no more.
var errEnough = errors.New("retry: enough")

// call is one call of a Turn.
type call struct {
	p      *Provider
	ctx    context.Context
	r      *llm.Request
	yield  func(llm.Event, error) bool
	at     int // index of the target
	tries  int // failed tries of it
	limit  int // MaxTokens that the target asked for; 0: it did not
	end    time.Time
	reason error // of the first target
}

// run asks until there is an answer, and returns why there is none.
func (c *call) run() error {
	for {
		err := c.try()
		if err == nil || errors.Is(err, errEnough) {
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
		if err := c.next(e); err != nil {
			return err
		}
	}
}

// next makes ready for the next try after e, or returns why there is none.
func (c *call) next(e *llm.Error) error {
	move := c.judge(e)
	if move == again {
		wait, ok := c.wait(e)
		if ok {
			return c.pause(wait, e)
		}
		move = fallBack
	}
	switch {
	case move == smaller:
		c.limit = e.MaxTokens
		return c.tell(llm.Notice{Retry: c.tries, Err: e})
	case move == giveUp:
		return e
	case c.at+1 == len(c.p.targets):
		return cmp.Or(c.reason, error(e))
	}
	if c.reason == nil {
		c.reason = e
	}
	c.at++
	c.tries, c.limit = 0, 0
	return c.tell(llm.Notice{Fallback: c.p.targets[c.at].name(), Err: e})
}

// A move is what to do after a failure.
type move int

const (
	again    move = iota // the same, later
	smaller              // the same at once, with the answer that it allows
	fallBack             // another target
	giveUp               // nothing here helps
)

func (c *call) judge(e *llm.Error) move {
	last := c.at+1 == len(c.p.targets)
	switch e.Class {
	case llm.ContextOverflow, llm.TooLarge, llm.ImageTooLarge, llm.PrefixCheck, llm.ContentPolicy:
		return giveUp
	case llm.Format:
		if e.MaxTokens > margin && c.limit == 0 {
			return smaller
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
	return again
}

// margin is kept free below a limit of tokens that a service named.
const margin = 64

// wait returns how long to wait before the next try, and whether there is time
// for it.
func (c *call) wait(e *llm.Error) (time.Duration, bool) {
	o := c.p.o
	d := e.After
	if d > o.MaxHint {
		return 0, false
	}
	if d <= 0 {
		d = min(o.First<<min(c.tries-1, 16), o.Most)
		d += time.Duration(o.Chance() * float64(d) / 2)
	}
	return d, !time.Now().Add(d).After(c.end)
}

func (c *call) pause(d time.Duration, e *llm.Error) error {
	if err := c.tell(llm.Notice{Retry: c.tries, After: d, Err: e}); err != nil {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func (c *call) tell(e llm.Event) error {
	if !c.yield(e, nil) {
		return errEnough
	}
	return nil
}

// try asks the target once and passes its events on. A sequence that ends
// without Done is a stream that was cut.
func (c *call) try() error {
	t := c.p.targets[c.at]
	r := *c.r
	if t.Model != "" {
		r.Model = t.Model
	}
	if t.CacheTTL != nil {
		r.CacheTTL = *t.CacheTTL
	}
	if c.limit > 0 {
		r.MaxTokens = c.limit - margin
	}
	for e, err := range t.Provider.Stream(c.ctx, &r) {
		if err != nil {
			return err
		}
		wanted := c.yield(e, nil)
		if _, ok := e.(llm.Done); ok { // an answer, also for a reader that stops here
			return nil
		}
		if !wanted {
			return errEnough
		}
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return &llm.Error{Class: llm.Network, Provider: t.Provider.Name(), Message: "the stream ended before the answer was complete"}
}
