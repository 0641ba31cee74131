package turn

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

// A backgroundCompaction is a pass of hygiene, or one that a person has asked for, under
// way or made.
type backgroundCompaction struct {
	view   agent.ContextView
	head   llm.Digest // of the messages in view
	engine agent.Engine
	reason string
	cancel context.CancelFunc
	gone   chan struct{} // closed when nobody waits for the pass any more
	done   chan struct{} // closed when what follows is set
	pass   agent.Compaction
	err    error

	// Under the mutex of the passes: nobody else has the engine.
	alone bool
}

// fits reports whether nothing has touched what p was made of.
func (p *backgroundCompaction) fits(s *sessionState) bool {
	n := len(p.view.Messages)
	return p.view.First == s.record.Start && n > 0 && n <= s.transcript.Len() && s.transcript.Digests(n)[n-1] == p.head
}

// keepCompaction is how long a pass that was made waits for a turn that adopts it. It
// holds the conversation as it was, so it cannot wait for ever.
const keepCompaction = time.Hour

// CompactionStats count the passes that are made beside turns, since the start.
type CompactionStats struct {
	Started   int    `json:"begun"`
	Failed    int    `json:"failed"`
	Adopted   int    `json:"adopted"`
	Discarded int    `json:"forgotten"`      // made, and adopted by no turn
	Waiting   int    `json:"waiting"`        // under way or made, and not adopted yet
	Last      string `json:"last,omitempty"` // what became of the newest one: "made" or why it failed; "" before the first
	// LastBefore and Tokens are what the newest one that was made began with, and
	// came to.
	LastBefore int `json:"last_before,omitempty"`
	LastAfter  int `json:"last_after,omitempty"`
}

// String is Said, in English.
func (n CompactionStats) String() string { return n.Describe(i18n.Printer{}) }

// Describe counts the passes in one line, "" if there were none. Why one failed is
// not in it: that may tell of the conversation.
func (n CompactionStats) Describe(p i18n.Printer) string {
	if n.Started == 0 {
		return ""
	}
	s := p.T("compactions beside turns since the start: %d; adopted %d", n.Started, n.Adopted)
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

// backgroundCompactions are the passes that no turn has adopted yet. There is at most one per
// session, so two never compact the same one.
type backgroundCompactions struct {
	running sync.WaitGroup
	mu      sync.Mutex // guards what follows
	passes  map[session.ID]*backgroundCompaction
	counts  CompactionStats
}

func (c *backgroundCompactions) of(id session.ID) *backgroundCompaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passes[id]
}

// orphan reports whether a pass has the engine of a session that is given up; the
// engine is ended with the pass then.
func (c *backgroundCompactions) orphan(id session.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.passes[id]
	if p != nil {
		p.alone = true
	}
	return p != nil
}

func (c *backgroundCompactions) count(f func(*CompactionStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.counts)
}

// CompactionStats returns what has become of the passes beside turns.
func (r *Runner) CompactionStats() CompactionStats {
	c := &r.compactions
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts
	n.Waiting = len(c.passes)
	return n
}

// drop forgets p, if it is there still, and reports whether it was.
func (c *backgroundCompactions) drop(id session.ID, p *backgroundCompaction) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.passes[id] != p {
		return false
	}
	delete(c.passes, id)
	close(p.gone)
	return true
}

// startCompaction has a pass of the turn's conversation made beside the turns. It ends with
// the runner, and is forgotten when no turn has adopted it for long.
func (t *turn) startCompaction(e agent.Engine, v agent.ContextView, why string) *backgroundCompaction {
	r, c, id := t.runner, &t.runner.compactions, t.session.record.ID
	ctx, cancel := context.WithCancel(context.Background())
	p := &backgroundCompaction{view: v, engine: e, reason: why, cancel: cancel, gone: make(chan struct{}), done: make(chan struct{})}
	if n := len(v.Messages); n > 0 {
		p.head = t.session.transcript.Digests(n)[n-1]
	}
	c.mu.Lock()
	if c.passes == nil {
		c.passes = make(map[session.ID]*backgroundCompaction)
	}
	c.passes[id] = p
	c.counts.Started++
	c.mu.Unlock()
	c.running.Go(func() {
		p.pass, p.err = r.opts.Agent.Compress(ctx, e, v)
		c.count(func(n *CompactionStats) { n.note(p) })
		close(p.done)
	})
	c.running.Go(func() {
		defer cancel()
		select {
		case <-r.closing:
		case <-p.done:
			r.expire(id, p)
		}
	})
	return p
}

func (n *CompactionStats) note(p *backgroundCompaction) {
	switch {
	case errors.Is(p.err, agent.ErrCoolingDown):
		n.Last = "there was nothing to do"
		return
	case p.err != nil:
		n.Failed++
		n.Last = p.err.Error()
		return
	}
	n.Last, n.LastBefore, n.LastAfter = "made", p.pass.Before, p.pass.After
}

// expire forgets a pass that no turn adopts for long.
func (r *Runner) expire(id session.ID, p *backgroundCompaction) {
	limit := time.NewTimer(keepCompaction)
	defer limit.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-p.gone:
			return
		case <-limit.C:
		}
		if r.locks.acquire(id) == nil {
			break
		}
		limit.Reset(time.Minute) // the turn that has the session may adopt it
	}
	defer r.locks.release(id)
	if !r.compactions.drop(id, p) {
		return
	}
	r.compactions.count(func(n *CompactionStats) { n.Discarded++ })
	r.opts.Log.Info("a compaction was adopted by no turn and is forgotten", zap.String("session", string(id)))
	if l, ok := p.engine.(agent.Lifecycle); ok && p.alone {
		l.End()
	}
}

// take makes the turn the owner of a pass that is made, and of its engine, which
// knows how it went.
func (t *turn) take(p *backgroundCompaction) {
	t.runner.compactions.drop(t.session.record.ID, p)
	t.session.engine, t.session.limits = p.engine, agent.Limits{}
	t.limit()
}
