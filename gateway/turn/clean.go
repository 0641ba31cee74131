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
	"hermesd/gateway/session"
	"hermesd/gateway/words"
)

// A cleaningPass is a pass of hygiene, or one that a person has asked for, under
// way or made.
type cleaningPass struct {
	view   agent.View
	head   llm.Digest // of the messages in view
	engine agent.Engine
	why    string
	cancel context.CancelFunc
	gone   chan struct{} // closed when nobody waits for the pass any more
	done   chan struct{} // closed when what follows is set
	pass   agent.Pass
	err    error

	// Under the mutex of the passes: nobody else has the engine.
	alone bool
}

// fits reports whether nothing has touched what p was made of.
func (p *cleaningPass) fits(s *conversation) bool {
	n := len(p.view.Messages)
	return p.view.First == s.rec.Start && n > 0 && n <= s.tr.Len() && s.tr.Digests(n)[n-1] == p.head
}

// keepPass is how long a pass that was made waits for a turn that adopts it. It
// holds the conversation as it was, so it cannot wait for ever.
const keepPass = time.Hour

// Cleanings count the passes that are made beside turns, since the start.
type Cleanings struct {
	Begun     int    `json:"begun"`
	Failed    int    `json:"failed"`
	Adopted   int    `json:"adopted"`
	Forgotten int    `json:"forgotten"`      // made, and adopted by no turn
	Waiting   int    `json:"waiting"`        // under way or made, and not adopted yet
	Last      string `json:"last,omitempty"` // what became of the newest one: "made" or why it failed; "" before the first
	// LastBefore and Tokens are what the newest one that was made began with, and
	// came to.
	LastBefore int `json:"last_before,omitempty"`
	Tokens     int `json:"last_after,omitempty"`
}

// String is Said, in English.
func (n Cleanings) String() string { return n.Said(words.Printer{}) }

// Said counts the passes in one line, "" if there were none. Why one failed is
// not in it: that may tell of the conversation.
func (n Cleanings) Said(p words.Printer) string {
	if n.Begun == 0 {
		return ""
	}
	s := p.T("compactions beside turns since the start: %d; adopted %d", n.Begun, n.Adopted)
	for _, part := range []struct {
		what string
		n    int
	}{{words.N("waiting"), n.Waiting}, {words.N("failed"), n.Failed}, {words.N("made for nothing"), n.Forgotten}} {
		if part.n > 0 {
			s += fmt.Sprintf(", %s %d", p.Translate(part.what), part.n)
		}
	}
	if n.LastBefore > 0 {
		s += p.T("; the newest made %d tokens of %d", n.Tokens, n.LastBefore)
	}
	return s
}

// cleaning are the passes that no turn has adopted yet. There is at most one per
// session, so two never compact the same one.
type cleaning struct {
	running sync.WaitGroup
	mu      sync.Mutex // guards what follows
	passes  map[session.ID]*cleaningPass
	counts  Cleanings
}

func (c *cleaning) of(id session.ID) *cleaningPass {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passes[id]
}

// orphan reports whether a pass has the engine of a session that is given up; the
// engine is ended with the pass then.
func (c *cleaning) orphan(id session.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.passes[id]
	if p != nil {
		p.alone = true
	}
	return p != nil
}

func (c *cleaning) count(f func(*Cleanings)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.counts)
}

// Cleanings returns what has become of the passes beside turns.
func (r *Runner) Cleanings() Cleanings {
	c := &r.cleaning
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts
	n.Waiting = len(c.passes)
	return n
}

// drop forgets p, if it is there still, and reports whether it was.
func (c *cleaning) drop(id session.ID, p *cleaningPass) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.passes[id] != p {
		return false
	}
	delete(c.passes, id)
	close(p.gone)
	return true
}

// begun has a pass of the turn's conversation made beside the turns. It ends with
// the runner, and is forgotten when no turn has adopted it for long.
func (t *turn) begun(e agent.Engine, v agent.View, why string) *cleaningPass {
	r, c, id := t.r, &t.r.cleaning, t.s.rec.ID
	ctx, cancel := context.WithCancel(context.Background())
	p := &cleaningPass{view: v, engine: e, why: why, cancel: cancel, gone: make(chan struct{}), done: make(chan struct{})}
	if n := len(v.Messages); n > 0 {
		p.head = t.s.tr.Digests(n)[n-1]
	}
	c.mu.Lock()
	if c.passes == nil {
		c.passes = make(map[session.ID]*cleaningPass)
	}
	c.passes[id] = p
	c.counts.Begun++
	c.mu.Unlock()
	c.running.Go(func() {
		p.pass, p.err = r.o.Agent.Compress(ctx, e, v)
		c.count(func(n *Cleanings) { n.note(p) })
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

func (n *Cleanings) note(p *cleaningPass) {
	switch {
	case errors.Is(p.err, agent.ErrNotNow):
		n.Last = "there was nothing to do"
		return
	case p.err != nil:
		n.Failed++
		n.Last = p.err.Error()
		return
	}
	n.Last, n.LastBefore, n.Tokens = "made", p.pass.Before, p.pass.After
}

// expire forgets a pass that no turn adopts for long.
func (r *Runner) expire(id session.ID, p *cleaningPass) {
	limit := time.NewTimer(keepPass)
	defer limit.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-p.gone:
			return
		case <-limit.C:
		}
		if r.sole.enter(id) == nil {
			break
		}
		limit.Reset(time.Minute) // the turn that has the session may adopt it
	}
	defer r.sole.leave(id)
	if !r.cleaning.drop(id, p) {
		return
	}
	r.cleaning.count(func(n *Cleanings) { n.Forgotten++ })
	r.o.Log.Info("a compaction was adopted by no turn and is forgotten", zap.String("session", string(id)))
	if l, ok := p.engine.(agent.Lifecycle); ok && p.alone {
		l.End()
	}
}

// take makes the turn the owner of a pass that is made, and of its engine, which
// knows how it went.
func (t *turn) take(p *cleaningPass) {
	t.r.cleaning.drop(t.s.rec.ID, p)
	t.s.engine, t.s.limits = p.engine, agent.Limits{}
	t.limit()
}
