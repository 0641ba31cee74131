package lcm

import (
	"context"
	"encoding/json"
	"sync"

	"hermesd/agent/engine/internal/compaction"
	"hermesd/agent/engine/summary"
	"hermesd/agent/tool"
)

// Name is what the configuration calls the engine.
const Name = "lcm"

// Options are what the engine is made of; they are those of the compressor.
type Options = compaction.Options

// An Engine is the engine of one session. It implements agent.Engine,
// agent.Lifecycle and agent.Toolbox.
type Engine struct {
	*compaction.Engine
	s *summarizer
	a Archive
}

// New returns the engine of one session whose messages a reads.
func New(o Options, a Archive) *Engine {
	s := &summarizer{}
	e := compaction.New(o, s, func(raw json.RawMessage) { s.t = read(raw) })
	return &Engine{e, s, a}
}

// Tools implements agent.Toolbox. The tools may be used beside a pass.
func (e *Engine) Tools() []tool.Tool {
	return Tools(func(context.Context, string) (json.RawMessage, Archive, error) { return e.State(), e.a, nil })
}

// summarizer keeps the tree.
type summarizer struct {
	mu sync.Mutex // guards what follows
	t  tree
}

func (s *summarizer) Name() string { return Name }

// Save implements core.Scribe.
func (s *summarizer) Save() json.RawMessage {
	raw, err := json.Marshal(s.tree())
	if err != nil {
		return nil // unreachable: texts and numbers
	}
	return raw
}

func (s *summarizer) tree() tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.t
}

// Write implements core.Scribe: what is archived becomes a leaf, and old nodes
// get one above them until the top fits.
func (s *summarizer) Write(ctx context.Context, w *summary.Writer, p compaction.SummaryInput) (string, error) {
	t := s.tree().before(p.Start)
	if len(t.Nodes) == 0 && p.Previous != "" { // of another engine
		t = t.add(node{From: p.First, To: p.Start, Text: p.Previous})
	}
	top := max(p.Most, least)
	leaf := min(p.Budget, top/2)
	text, err := s.text(ctx, w, p, summary.RenderMessages(p.Messages), leaf)
	if err != nil {
		return "", err
	}
	t = t.add(node{From: p.From, To: p.To, Text: text})
	for t.size() > top {
		ns := t.oldest()
		if len(ns) < 2 {
			break
		}
		if text, err = s.above(ctx, w, p, ns, top/2); err != nil {
			return "", err
		}
		n := node{From: ns[0].From, To: ns[len(ns)-1].To, Text: text}
		for _, k := range ns {
			n.Kids = append(n.Kids, k.ID)
		}
		t = t.add(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t = t
	return t.render(), nil
}

// least is how many tokens the top of a tree may have in the smallest window.
const least = 600

// text has a leaf written.
func (s *summarizer) text(ctx context.Context, w *summary.Writer, p compaction.SummaryInput, parts []string, budget int) (string, error) {
	if p.WithoutModel {
		return w.Redact(summary.WithoutModel("", p.Messages, budget)), nil
	}
	return w.Write(ctx, summary.Task{Parts: parts, Budget: budget, Focus: p.Focus, User: p.User})
}

// above has a node above ns written.
func (s *summarizer) above(ctx context.Context, w *summary.Writer, p compaction.SummaryInput, ns []node, budget int) (string, error) {
	if p.WithoutModel {
		return joined(ns, budget), nil
	}
	return s.text(ctx, w, p, parts(ns), budget)
}
