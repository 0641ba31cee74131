// Package plan computes which messages of a list stay and which are summarized,
// shortens old tool output, and repairs illegal lists. Its functions are pure:
// they call no model and do not modify their arguments.
package plan

import (
	"slices"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// SummaryHeading is the beginning of a block with a summary.
const SummaryHeading = "[CONTEXT COMPACTION] Earlier turns were compacted"

// Bounds describe the protected messages.
type Bounds struct {
	Head   int // messages at the beginning
	LastN  int // minimum number of messages at the end
	Budget int // minimum number of tokens at the end
}

// A Plan describes a compaction of ms: ms[:Head] and ms[Tail:] stay, and a
// summary replaces the messages between.
type Plan struct {
	Head, Tail int
	// Role is the role of the summary. With Merge it is appended to ms[Head-1]
	// as a block.
	Role  llm.Role
	Merge bool
	// Newest is the index of the newest user message if it is between Head and
	// Tail: it stays in the message of the summary, behind it. Otherwise -1.
	Newest int
}

// NewPlan chooses the boundaries in a legal list. No call is separated from its
// results, and the newest user message is in the tail. ok reports whether there
// are messages between the boundaries.
func NewPlan(ms []llm.Message, b Bounds) (p Plan, ok bool) {
	h, s := min(b.Head, len(ms)), tailStart(ms, b)
	if h > 0 && len(ms[h-1].ToolUses()) > 0 {
		h++
	}
	if s > 0 && s < len(ms) && hasToolResults(ms[s]) {
		s--
	}
	p = Plan{Head: h, Role: llm.User, Newest: -1}
	plain := s < len(ms) && ms[s].Role == llm.User
	switch {
	case h%2 == 0 && plain:
		s-- // the summary has the role user, so the tail begins with the assistant
	case h%2 == 1 && plain:
		p.Role = llm.Assistant
	case h%2 == 1:
		p.Merge = true
	}
	p.Tail = max(s, 0)
	return p, p.Tail > h
}

// NewPlanWithin returns a plan for a list whose newest turn alone is too long:
// of the messages after the newest user message, only the last exchange stays,
// and older ones as far as they fit into budget tokens. ok reports whether there
// are messages to summarize.
func NewPlanWithin(ms []llm.Message, budget int) (p Plan, ok bool) {
	u, s := NewestUser(ms), len(ms)-1
	if u < 0 || u >= s {
		return p, false
	}
	if ms[s].Role == llm.User {
		s--
	}
	left := budget - Tokens(ms[s:])
	for s-2 > u {
		if left -= Tokens(ms[s-2 : s]); left < 0 {
			break
		}
		s -= 2
	}
	p = Plan{Tail: s, Role: llm.User, Newest: u}
	return p, s > u && s > 1
}

// tailStart returns the beginning of the tail before the boundaries are moved.
func tailStart(ms []llm.Message, b Bounds) int {
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

// NewestUser returns the index of the newest message that the user wrote; -1 if
// there is none.
func NewestUser(ms []llm.Message) int {
	for i := len(ms) - 1; i >= 0; i-- {
		if ms[i].Role == llm.User && slices.ContainsFunc(ms[i].Blocks, isUserContent) {
			return i
		}
	}
	return -1
}

func isUserContent(b llm.Block) bool {
	return b.Type == llm.Image || b.Type == llm.Text && strings.TrimSpace(b.Text) != "" && !strings.HasPrefix(b.Text, SummaryHeading)
}

func hasToolResults(m llm.Message) bool {
	return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Type == llm.ToolResult })
}

// Tokens returns the estimated tokens of ms.
func Tokens(ms []llm.Message) int {
	n := 0
	for _, m := range ms {
		n += tokens.Message(m)
	}
	return n
}

// Assemble returns a new list with text, a summary, inserted as p says. own holds
// the blocks of the message p.Newest.
func Assemble(head []llm.Message, p Plan, text string, own []llm.Block, tail []llm.Message) []llm.Message {
	out := slices.Clone(head)
	block := llm.Block{Type: llm.Text, Text: text}
	if p.Merge {
		m := out[p.Head-1]
		m.Blocks = append(slices.Clone(m.Blocks), block)
		out[p.Head-1] = m
	} else {
		out = append(out, llm.Message{Role: p.Role, Blocks: append([]llm.Block{block}, own...)})
	}
	return append(out, tail...)
}

// OwnBlocks returns the blocks of a message that the user wrote: no tool results
// and no summary.
func OwnBlocks(m llm.Message) []llm.Block {
	return slices.DeleteFunc(slices.Clone(m.Blocks), func(b llm.Block) bool { return !isUserContent(b) })
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

// WithoutSummary returns ms without the block text, and without messages that
// consist only of it.
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
