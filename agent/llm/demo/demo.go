// Package demo is a model that needs nothing: no key, no network, no
// intelligence. It answers by simple rules, always the same to the same
// conversation, and says so. It shows what everything around a model does:
// streaming, tools, long conversations, summaries, usage.
//
// Its rules, the first that fits: it answers with the results of tools; it
// writes a summary where the headings of one are asked for; it calls tools
// ("please use todo …", "read file X", "search for X", "remember that …",
// name: {json}); it greets, adds up, or repeats what was said. Every [[token]]
// and #123 of the newest text is in the answer, so that answers can be matched
// with questions.
package demo

import (
	"context"
	"iter"
	"strings"
	"time"

	"hermesd/agent/llm"
)

// Model is the name of the only model.
const Model = "demo"

// Options say how the demo behaves.
type Options struct {
	Delay time.Duration // before each piece of an answer; 0: none
}

// A Provider answers by rules. Its methods may be called from any goroutine.
type Provider struct {
	o     Options
	cache *cache
}

// New returns a provider.
func New(o Options) *Provider { return &Provider{o: o, cache: newCache()} }

// Name implements llm.Provider.
func (p *Provider) Name() string { return "demo" }

// Stream implements llm.Provider.
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

// wait lets the pause before a piece go by; it reports false when ctx ended.
func (p *Provider) wait(ctx context.Context) bool {
	if p.o.Delay <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(p.o.Delay)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// An answer is what the demo says.
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

// tokens is how many tokens s is taken to hold.
func tokens(s string) int { return (len(s) + 3) / 4 }

// pieces cuts s into a few words each, all letters kept.
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

// shorten returns at most n runes of s, on one line.
func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
