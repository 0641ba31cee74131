// Package plan decides what of a list of messages stays and what is summarised,
// makes old tool output small, and keeps lists legal. It is pure: it calls no
// model, and changes nothing of what it is given.
package plan

import (
	"slices"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// SummaryHeading is what the block with a summary begins with.
const SummaryHeading = "[CONTEXT COMPACTION] Earlier turns were compacted"

// Bounds say what is protected.
type Bounds struct {
	Head   int // messages at the beginning
	LastN  int // messages at the end, at least
	Budget int // tokens at the end, at least
}

// A Plan says what becomes of a list: ms[:Head] and ms[Tail:] stay, and a
// summary takes the place of what is between.
type Plan struct {
	Head, Tail int
	// Role is that of the summary. With Merge it is a block of ms[Head-1].
	Role  llm.Role
	Merge bool
}

// NewPlan finds the boundaries in a legal list. No call is parted from its results,
// and the newest message of the user is in the tail. ok: something is between.
func NewPlan(ms []llm.Message, b Bounds) (p Plan, ok bool) {
	h, s := min(b.Head, len(ms)), tail(ms, b)
	if h > 0 && len(ms[h-1].ToolUses()) > 0 {
		h++
	}
	if s > 0 && s < len(ms) && answers(ms[s]) {
		s--
	}
	p = Plan{Head: h, Role: llm.User}
	plain := s < len(ms) && ms[s].Role == llm.User
	switch {
	case h%2 == 0 && plain:
		s-- // the summary is the user's, so the assistant begins the tail
	case h%2 == 1 && plain:
		p.Role = llm.Assistant
	case h%2 == 1:
		p.Merge = true
	}
	p.Tail = max(s, 0)
	return p, p.Tail > h
}

// tail is the index at which the tail begins before boundaries are moved.
func tail(ms []llm.Message, b Bounds) int {
	s, left := len(ms), b.Budget
	for s > 0 {
		n := tokens.Message(ms[s-1])
		if n > left {
			break
		}
		left -= n
		s--
	}
	s = min(s, max(len(ms)-max(b.LastN, 1), 0))
	if u := NewestUser(ms); u >= 0 {
		s = min(s, u)
	}
	return s
}

// NewestUser is the index of the newest message in which the user says
// something; -1 if there is none.
func NewestUser(ms []llm.Message) int {
	for i := len(ms) - 1; i >= 0; i-- {
		if ms[i].Role == llm.User && slices.ContainsFunc(ms[i].Blocks, said) {
			return i
		}
	}
	return -1
}

func said(b llm.Block) bool {
	return b.Type == llm.Image || b.Type == llm.Text && strings.TrimSpace(b.Text) != "" && !strings.HasPrefix(b.Text, SummaryHeading)
}

// answers reports whether m holds results of calls.
func answers(m llm.Message) bool {
	return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Type == llm.ToolResult })
}

// Tokens is the estimate for ms.
func Tokens(ms []llm.Message) int {
	n := 0
	for _, m := range ms {
		n += tokens.Message(m)
	}
	return n
}

// Assemble puts text, a summary, where p says. The result is a list of its own.
func Assemble(head []llm.Message, p Plan, text string, tail []llm.Message) []llm.Message {
	out := slices.Clone(head)
	block := llm.Block{Type: llm.Text, Text: text}
	if p.Merge {
		m := out[p.Head-1]
		m.Blocks = append(slices.Clone(m.Blocks), block)
		out[p.Head-1] = m
	} else {
		out = append(out, llm.Message{Role: p.Role, Blocks: []llm.Block{block}})
	}
	return append(out, tail...)
}

// Summary returns the newest summary in ms and the index of its message; -1 if
// there is none.
func Summary(ms []llm.Message) (at int, text string) {
	for i := len(ms) - 1; i >= 0; i-- {
		for _, b := range ms[i].Blocks {
			if b.Type == llm.Text && strings.HasPrefix(b.Text, SummaryHeading) {
				return i, b.Text
			}
		}
	}
	return -1, ""
}

// WithoutSummary returns ms without the block text and without messages that
// are nothing else.
func WithoutSummary(ms []llm.Message, text string) []llm.Message {
	if text == "" {
		return ms
	}
	var out []llm.Message
	for _, m := range ms {
		left := slices.DeleteFunc(slices.Clone(m.Blocks), func(b llm.Block) bool { return b.Type == llm.Text && b.Text == text })
		if len(left) > 0 {
			m.Blocks = left
			out = append(out, m)
		}
	}
	return out
}
