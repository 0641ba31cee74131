package hygiene

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// A Pass is a compaction of a session that runs outside of its turns. A later turn
// adopts its result.
type Pass struct {
	View   agent.ContextView
	Engine agent.Engine
	Reason string // agent.WhyHygiene or agent.WhyCompression
	// Result and Err are set once Done is closed.
	Result agent.Compaction
	Err    error

	digest  llm.Digest // of the messages in View
	cancel  context.CancelFunc
	dropped chan struct{} // closed when the pass is adopted or discarded
	done    chan struct{}

	// ownsEngine is set if the engine must be ended together with the pass. It is guarded
	// by Passes.mu.
	ownsEngine bool
}

// Done returns a channel that is closed when the pass has ended.
func (p *Pass) Done() <-chan struct{} { return p.done }

// Cancel ends the pass, unless it has just finished, and waits for its end.
func (p *Pass) Cancel() {
	p.cancel()
	<-p.done
}

// AppliesTo reports whether the messages that p has compacted are unchanged in the
// transcript of a session whose active messages begin at first.
func (p *Pass) AppliesTo(first int, tr *llm.Transcript) bool {
	n := len(p.View.Messages)
	return p.View.First == first && n > 0 && n <= tr.Len() && tr.Digests(n)[n-1] == p.digest
}

// passTTL is how long a finished pass waits for a turn that adopts it. It is bounded
// because the pass holds a copy of the conversation in memory.
const passTTL = time.Hour

// Passes runs the passes of sessions, at most one per session. Its methods may be called
// from any goroutine.
type Passes struct {
	agent   *agent.Agent
	locks   *session.Locks
	log     *zap.Logger
	running sync.WaitGroup
	closing chan struct{}

	mu        sync.Mutex // guards what follows
	bySession map[session.ID]*Pass
	stats     Stats
}

// NewPasses returns Passes of agent a. A pass expires only while no turn holds the lock
// of its session.
func NewPasses(a *agent.Agent, locks *session.Locks, log *zap.Logger) *Passes {
	return &Passes{agent: a, locks: locks, log: log, closing: make(chan struct{}), bySession: make(map[session.ID]*Pass)}
}

// Close cancels all passes.
func (c *Passes) Close() { close(c.closing) }

// Wait waits for the end of all passes, after Close.
func (c *Passes) Wait() { c.running.Wait() }

// Get returns the pass of a session that no turn has adopted yet, nil if there is none.
func (c *Passes) Get(id session.ID) *Pass {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bySession[id]
}

// HandOver is called when the session does not use engine e any more. It reports whether
// a pass uses e; that pass then ends it.
func (c *Passes) HandOver(id session.ID, e agent.Engine) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.bySession[id]
	if p == nil || p.Engine != e {
		return false
	}
	p.ownsEngine = true
	return true
}

func (c *Passes) update(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.stats)
}

// Adopted counts a pass that became part of a turn.
func (c *Passes) Adopted() { c.update(func(n *Stats) { n.Adopted++ }) }

// Stats returns the counts of passes.
func (c *Passes) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.stats
	n.Waiting = len(c.bySession)
	return n
}

// Remove removes p and reports whether it was still registered. The caller then owns its
// engine.
func (c *Passes) Remove(id session.ID, p *Pass) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySession[id] != p {
		return false
	}
	delete(c.bySession, id)
	close(p.dropped)
	return true
}

// Start starts a pass of engine e over the view v of a transcript. It is discarded if no
// turn adopts it within an hour.
func (c *Passes) Start(id session.ID, tr *llm.Transcript, e agent.Engine, v agent.ContextView, reason string) *Pass {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pass{View: v, Engine: e, Reason: reason, cancel: cancel, dropped: make(chan struct{}), done: make(chan struct{})}
	if n := len(v.Messages); n > 0 {
		p.digest = tr.Digests(n)[n-1]
	}
	c.mu.Lock()
	c.bySession[id] = p
	c.stats.Started++
	c.mu.Unlock()
	c.running.Go(func() {
		p.Result, p.Err = c.agent.Compress(ctx, e, v)
		c.update(func(n *Stats) { n.record(p) })
		close(p.done)
	})
	c.running.Go(func() {
		defer cancel()
		select {
		case <-c.closing:
		case <-p.done:
			c.expire(id, p)
		}
	})
	return p
}

// expire discards p when no turn has adopted it within passTTL.
func (c *Passes) expire(id session.ID, p *Pass) {
	limit := time.NewTimer(passTTL)
	defer limit.Stop()
	for {
		select {
		case <-c.closing:
			return
		case <-p.dropped:
			return
		case <-limit.C:
		}
		if c.locks.TryAcquire(id) == nil {
			break
		}
		limit.Reset(time.Minute) // the turn that holds the session may adopt it
	}
	defer c.locks.Release(id)
	if !c.Remove(id, p) {
		return
	}
	c.update(func(n *Stats) { n.Discarded++ })
	c.log.Info("compaction discarded: no turn adopted it", zap.String("session", string(id)))
	if l, ok := p.Engine.(agent.Lifecycle); ok && p.ownsEngine {
		l.End()
	}
}

// Stats counts the passes since the start of the process.
type Stats struct {
	Started   int    `json:"started"`
	Failed    int    `json:"failed"`
	Adopted   int    `json:"adopted"`
	Discarded int    `json:"discarded"`      // finished, but adopted by no turn
	Waiting   int    `json:"waiting"`        // running or finished, and not adopted yet
	Last      string `json:"last,omitempty"` // result of the newest one: "made" or the reason of its failure; "" before the first
	// LastBefore and LastAfter are the sizes in tokens before and after the newest
	// successful one.
	LastBefore int `json:"last_before,omitempty"`
	LastAfter  int `json:"last_after,omitempty"`
}

// String returns Describe in English.
func (n Stats) String() string { return n.Describe(i18n.Printer{}) }

// Describe returns the counts in one line, "" if there were no compactions. It omits
// the reasons of failures, because they may contain text of the conversation.
func (n Stats) Describe(p i18n.Printer) string {
	if n.Started == 0 {
		return ""
	}
	s := p.T("compactions outside of turns since the start: %d; adopted %d", n.Started, n.Adopted)
	for _, part := range []struct {
		what string
		n    int
	}{{i18n.N("waiting"), n.Waiting}, {i18n.N("failed"), n.Failed}, {i18n.N("made for nothing"), n.Discarded}} {
		if part.n > 0 {
			s += fmt.Sprintf(", %s %d", p.Translate(part.what), part.n)
		}
	}
	if n.LastBefore > 0 {
		s += p.T("; the newest made %d tokens of %d", n.LastAfter, n.LastBefore)
	}
	return s
}

func (n *Stats) record(p *Pass) {
	switch {
	case errors.Is(p.Err, agent.ErrCoolingDown):
		n.Last = "there was nothing to do"
		return
	case p.Err != nil:
		n.Failed++
		n.Last = p.Err.Error()
		return
	}
	n.Last, n.LastBefore, n.LastAfter = "made", p.Result.Before, p.Result.After
}
