// Package lcm implements a lossless context engine: each part of the
// conversation that leaves the context becomes a leaf of a tree of summaries,
// and the model can read down from a summary to the original messages.
//
//	          3: messages 0 to 310            in the context, if necessary
//	         /       |        \
//	0: 0 to 99  1: 100 to 204  2: 205 to 310  in the context, while they fit
//	    |            |             |
//	 messages     messages      messages      in the archive, always
//
// The context has the top of the tree: the newest leaves, and instead of older
// ones their parent as soon as not all fit. The tools lcm_grep, lcm_describe
// and lcm_expand read the rest. The main type is Engine, for one session; see
// agent.Engine for its concurrency.
package lcm

import (
	"context"
	"encoding/json"
	"fmt"
	"hermesd/agent/llm/tokens"
	"sync"

	"hermesd/agent/engine/internal/compaction"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// Name is the name of the engine in the configuration.
const Name = "lcm"

// Options are the parameters of New; they are those of the compressor.
type Options = compaction.Options

// An Engine is the engine of one session. It implements agent.Engine and
// agent.Lifecycle.
type Engine struct {
	*compaction.Engine
	a Archive
}

// New returns the engine of one session; a reads the messages of the session.
func New(o Options, a Archive) *Engine {
	s := &summarizer{}
	e := compaction.New(o, s, func(raw json.RawMessage) { s.t = parseTree(raw) })
	return &Engine{e, a}
}

// Tools returns the tools that search the archived messages. They may run during a
// compaction.
func (e *Engine) Tools() []tool.Tool {
	return Tools(func(context.Context, string) (json.RawMessage, Archive, error) { return e.State(), e.a, nil })
}

type summarizer struct {
	mu sync.Mutex // guards what follows
	t  tree
}

func (s *summarizer) Name() string { return Name }

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

// MaxSize implements compaction.Summarizer. A tree in a small context is larger than a
// summary would be.
func (*summarizer) MaxSize(tokens int) int { return max(tokens, minTopTokens) }

// Write implements compaction.Summarizer: the archived messages become a leaf,
// and old nodes get a parent until the top fits.
func (s *summarizer) Write(ctx context.Context, w *summary.Writer, p compaction.SummaryInput) (string, error) {
	t := s.tree().dropActive(p.Start)
	if len(t.Nodes) == 0 && p.Previous != "" { // written by another engine
		t = t.add(node{From: p.First, To: p.Start, Text: p.Previous})
	}
	top := s.MaxSize(p.Most)
	leaf := min(p.Budget, top/2)
	text, err := s.writeLeaf(ctx, w, p, summary.RenderMessages(p.Messages), leaf)
	if err != nil {
		return "", err
	}
	t = t.add(node{From: p.From, To: p.To, Text: text})
	for tokens.Text(t.render()) > top {
		ns := t.nodesToFold()
		if len(ns) < 2 {
			break
		}
		if text, err = s.writeParent(ctx, w, p, ns, top/2); err != nil {
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

// minTopTokens is the size of the top of a tree for the smallest context
// length.
const minTopTokens = 600

func (s *summarizer) writeLeaf(ctx context.Context, w *summary.Writer, p compaction.SummaryInput, parts []string, budget int) (string, error) {
	if p.WithoutModel {
		return w.Redact(summary.WithoutModel("", p.Messages, budget)), nil
	}
	return w.Write(ctx, summary.Task{Parts: parts, Budget: budget, Focus: p.Focus, User: p.User})
}

// writeParent returns the text of a node above ns.
func (s *summarizer) writeParent(ctx context.Context, w *summary.Writer, p compaction.SummaryInput, ns []node, budget int) (string, error) {
	if p.WithoutModel {
		return joinNodes(ns, budget), nil
	}
	return s.writeLeaf(ctx, w, p, renderNodes(ns), budget)
}

// An Archive reads the messages of one session by number, active or archived.
// Its methods may be called from any goroutine.
type Archive interface {
	// Rows returns the existing messages with numbers from (inclusive) to to
	// (exclusive).
	Rows(ctx context.Context, from, to int) ([]llm.Message, error)
}

// pageSize is the number of messages that are read at once.
const pageSize = 200

// forEachMessage calls f for the messages with numbers from (inclusive) to to
// (exclusive) until f returns false.
func forEachMessage(ctx context.Context, a Archive, from, to int, f func(n int, m llm.Message) bool) error {
	for from < to {
		ms, err := a.Rows(ctx, from, min(from+pageSize, to))
		if err != nil {
			return fmt.Errorf("the archived messages from %d on cannot be read: %w", from, err)
		}
		for i, m := range ms {
			if !f(from+i, m) {
				return nil
			}
		}
		if len(ms) == 0 {
			return nil
		}
		from += len(ms)
	}
	return nil
}
