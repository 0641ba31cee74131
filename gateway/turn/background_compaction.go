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

// A backgroundCompaction is a compaction that hygiene or a user has started. It runs
// outside of turns, and a later turn adopts its result.
type backgroundCompaction struct {
	view       agent.ContextView
	viewDigest llm.Digest // of the messages in view
	engine     agent.Engine
	reason     string
	cancel     context.CancelFunc
	dropped    chan struct{} // closed when the compaction is adopted or discarded
	done       chan struct{} // closed when result and err are set
	result     agent.Compaction
	err        error

	// ownsEngine is set if the engine must be ended together with the compaction.
	// It is guarded by backgroundCompactions.mu.
	ownsEngine bool
}

// appliesTo reports whether the messages that p compacted are unchanged in s.
func (p *backgroundCompaction) appliesTo(s *sessionState) bool {
	n := len(p.view.Messages)
	return p.view.First == s.record.Start && n > 0 && n <= s.transcript.Len() && s.transcript.Digests(n)[n-1] == p.viewDigest
}

// compactionTTL is how long a finished compaction waits for a turn that adopts it.
// It is bounded because the compaction holds a copy of the conversation in memory.
const compactionTTL = time.Hour

// CompactionStats counts the compactions outside of turns since the start of the
// process.
type CompactionStats struct {
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
func (n CompactionStats) String() string { return n.Describe(i18n.Printer{}) }

// Describe returns the counts in one line, "" if there were no compactions. It omits
// the reasons of failures, because they may contain text of the conversation.
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

// backgroundCompactions holds the compactions that no turn has adopted yet, at most
// one per session.
type backgroundCompactions struct {
	running   sync.WaitGroup
	mu        sync.Mutex // guards what follows
	bySession map[session.ID]*backgroundCompaction
	stats     CompactionStats
}

func (c *backgroundCompactions) get(id session.ID) *backgroundCompaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bySession[id]
}

// handOverEngine is called when the session does not use its engine any more. It
// reports whether a compaction uses the engine; that compaction then ends it.
func (c *backgroundCompactions) handOverEngine(id session.ID, e agent.Engine) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.bySession[id]
	if p == nil || p.engine != e {
		return false
	}
	p.ownsEngine = true
	return true
}

func (c *backgroundCompactions) updateStats(f func(*CompactionStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.stats)
}

// CompactionStats returns the counts of compactions outside of turns.
func (r *Runner) CompactionStats() CompactionStats {
	c := &r.compactions
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.stats
	n.Waiting = len(c.bySession)
	return n
}

// remove removes p and reports whether it was still registered.
func (c *backgroundCompactions) remove(id session.ID, p *backgroundCompaction) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySession[id] != p {
		return false
	}
	delete(c.bySession, id)
	close(p.dropped)
	return true
}

// startCompaction starts a compaction of the turn's conversation outside of turns.
// It ends with the runner, and is discarded if no turn adopts it within
// compactionTTL.
func (t *turn) startCompaction(e agent.Engine, v agent.ContextView, reason string) *backgroundCompaction {
	r, c, id := t.runner, &t.runner.compactions, t.session.record.ID
	ctx, cancel := context.WithCancel(context.Background())
	p := &backgroundCompaction{view: v, engine: e, reason: reason, cancel: cancel, dropped: make(chan struct{}), done: make(chan struct{})}
	if n := len(v.Messages); n > 0 {
		p.viewDigest = t.session.transcript.Digests(n)[n-1]
	}
	c.mu.Lock()
	if c.bySession == nil {
		c.bySession = make(map[session.ID]*backgroundCompaction)
	}
	c.bySession[id] = p
	c.stats.Started++
	c.mu.Unlock()
	c.running.Go(func() {
		p.result, p.err = r.opts.Agent.Compress(ctx, e, v)
		c.updateStats(func(n *CompactionStats) { n.record(p) })
		close(p.done)
	})
	c.running.Go(func() {
		defer cancel()
		select {
		case <-r.closing:
		case <-p.done:
			r.expireCompaction(id, p)
		}
	})
	return p
}

func (n *CompactionStats) record(p *backgroundCompaction) {
	switch {
	case errors.Is(p.err, agent.ErrCoolingDown):
		n.Last = "there was nothing to do"
		return
	case p.err != nil:
		n.Failed++
		n.Last = p.err.Error()
		return
	}
	n.Last, n.LastBefore, n.LastAfter = "made", p.result.Before, p.result.After
}

// expireCompaction discards p when no turn has adopted it within compactionTTL.
func (r *Runner) expireCompaction(id session.ID, p *backgroundCompaction) {
	limit := time.NewTimer(compactionTTL)
	defer limit.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-p.dropped:
			return
		case <-limit.C:
		}
		if r.locks.acquire(id) == nil {
			break
		}
		limit.Reset(time.Minute) // the turn that holds the session may adopt it
	}
	defer r.locks.release(id)
	if !r.compactions.remove(id, p) {
		return
	}
	r.compactions.updateStats(func(n *CompactionStats) { n.Discarded++ })
	r.opts.Log.Info("compaction discarded: no turn adopted it", zap.String("session", string(id)))
	if l, ok := p.engine.(agent.Lifecycle); ok && p.ownsEngine {
		l.End()
	}
}

// claimCompaction makes the turn the owner of a finished compaction and of its
// engine, whose state includes the result. If the session got another engine in the
// meantime, that one stays unless the result can be adopted.
func (t *turn) claimCompaction(p *backgroundCompaction) {
	t.runner.compactions.remove(t.session.record.ID, p)
	unused := t.session.engine
	if unused != nil && unused != p.engine && (p.err != nil || !p.appliesTo(t.session)) {
		unused = p.engine
	} else {
		t.session.engine = p.engine
	}
	if l, ok := unused.(agent.Lifecycle); ok && unused != t.session.engine {
		l.End()
	}
	t.session.limits = agent.Limits{}
	t.updateLimits()
}
