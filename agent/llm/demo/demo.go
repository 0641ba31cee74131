// Package demo implements a model that needs no key, no network and no configuration. It
// answers by fixed rules, always the same way to the same conversation, and says that it is
// a demo. It exercises everything around a model: streaming, tools, long conversations,
// summaries, usage.
//
// The first matching rule applies: it answers with tool results; it writes a summary where
// the headings of one are requested; it calls tools ("please use todo …", "read file X",
// "search for X", "remember that …", name: {json}); it greets, calculates, or repeats the
// message. Every [[token]] and #123 of the newest text is in the answer, so that tests can
// match answers with questions.
package demo

import (
	"context"
	"hash/fnv"
	"iter"
	"sync"
	"time"

	"hermesd/agent/llm"
	"hermesd/internal/backoff"
)

// Model is the name of the only model of this provider.
const Model = "demo"

// Options configure the demo model.
type Options struct {
	Delay time.Duration // delay before each piece of an answer; 0: none
}

// A Provider answers by rules. Its methods may be called from any goroutine.
type Provider struct {
	o     Options
	cache *cache
}

// New returns a provider with an empty prefix cache.
func New(o Options) *Provider {
	return &Provider{o: o, cache: &cache{seen: make(map[uint64]struct{}), ring: make([]uint64, maxSeen)}}
}

func (p *Provider) Name() string { return "demo" }

func (p *Provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		c, ok := newConversation(r)
		if !ok {
			yield(nil, &llm.Error{Class: llm.Format, Provider: p.Name(), Message: "the last message of a request must be the user's"})
			return
		}
		a := c.answer()
		for _, e := range a.events() {
			if !p.wait(ctx) {
				yield(nil, context.Cause(ctx))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		u := p.cache.count(c)
		u.Output = a.tokens()
		yield(llm.Done{Message: a.message(), Stop: a.stop(), Usage: u, Model: Model, Provider: p.Name()}, nil)
	}
}

// wait waits for the delay before a piece; it returns false if ctx ended.
func (p *Provider) wait(ctx context.Context) bool {
	if p.o.Delay <= 0 {
		return ctx.Err() == nil
	}
	return backoff.Sleep(ctx, p.o.Delay) == nil
}

type answer struct {
	thinking string
	text     string
	calls    []llm.Block
}

func (a answer) events() []llm.Event {
	var events []llm.Event
	if a.thinking != "" {
		events = append(events, llm.ThinkingDelta(a.thinking))
	}
	for _, s := range pieces(a.text) {
		events = append(events, llm.TextDelta(s))
	}
	for _, c := range a.calls {
		events = append(events, llm.ToolStart{Name: c.Name})
	}
	return events
}

func (a answer) message() llm.Message {
	m := llm.Message{Role: llm.Assistant, Dialect: "demo"}
	if a.thinking != "" {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Thinking, Text: a.thinking})
	}
	if a.text != "" {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Text, Text: a.text})
	}
	m.Blocks = append(m.Blocks, a.calls...)
	return m
}

func (a answer) stop() llm.StopReason {
	if len(a.calls) > 0 {
		return llm.CallTools
	}
	return llm.EndTurn
}

func (a answer) tokens() int {
	n := tokens(a.text) + tokens(a.thinking)
	for _, c := range a.calls {
		n += tokens(c.Name) + tokens(string(c.Input)) + 8
	}
	return max(n, 1)
}

func tokens(s string) int { return (len(s) + 3) / 4 }

// pieces splits s into pieces of a few words each, without losing a byte.
func pieces(s string) []string {
	const words = 3
	var parts []string
	for s != "" {
		end, n := len(s), 0
		for i := 0; i < len(s); i++ {
			if s[i] == ' ' || s[i] == '\n' {
				if n++; n == words {
					end = i + 1
					break
				}
			}
		}
		parts = append(parts, s[:end])
		s = s[end:]
	}
	return parts
}

// cache stores the recently seen prefixes of conversations, to report the usage of a
// service with a prefix cache.
type cache struct {
	mu     sync.Mutex // guards what follows
	seen   map[uint64]struct{}
	ring   []uint64 // the same hashes; the oldest is at index at
	oldest int
}

// maxSeen is the maximum number of stored prefixes.
const maxSeen = 8192

func (k *cache) count(c conversation) llm.Usage {
	h := fnv.New64a()
	total := 0
	add := func(parts ...string) {
		for _, s := range parts {
			_, _ = h.Write([]byte(s))
			_, _ = h.Write([]byte{0})
			total += tokens(s)
		}
	}
	for _, t := range c.r.Tools {
		add(t.Name, t.Description, string(t.Schema))
	}
	add(c.r.System)
	k.mu.Lock()
	defer k.mu.Unlock()
	read := 0
	known := func() {
		if _, ok := k.seen[h.Sum64()]; ok {
			read = total
		}
	}
	known()
	k.add(h.Sum64())
	for _, m := range c.messages {
		add(string(m.Role))
		for _, b := range m.Blocks {
			add(string(b.Type), b.Text, b.Name, string(b.Input))
		}
		known()
	}
	k.add(h.Sum64())
	return llm.Usage{Input: total - read + tokens(c.r.Overlay), CacheRead: read}
}

func (k *cache) add(h uint64) {
	if _, ok := k.seen[h]; ok {
		return
	}
	delete(k.seen, k.ring[k.oldest])
	k.seen[h] = struct{}{}
	k.ring[k.oldest] = h
	k.oldest = (k.oldest + 1) % maxSeen
}
