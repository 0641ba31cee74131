// Package enginetest defines the tests that every context engine must pass, and
// their fixtures: a session whose rows are never deleted, random conversations,
// and a summary model that writes down the facts it reads. The main function is
// Suite.
package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hermesd/agent"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A Session stores rows as a real store does: numbered and immutable, with the
// active ones at the end. It is not safe for concurrent use.
type Session struct {
	Fixed int
	rows  []llm.Message
	start int
	spans [][2]int
}

// Append adds messages.
func (s *Session) Append(ms ...llm.Message) { s.rows = append(s.rows, ms...) }

// Active returns the active messages.
func (s *Session) Active() []llm.Message { return s.rows[s.start:len(s.rows):len(s.rows)] }

// Archived returns the archived messages, in the order in which they were
// archived.
func (s *Session) Archived() (out []llm.Message) {
	for _, a := range s.spans {
		out = append(out, s.rows[a[0]:a[1]]...)
	}
	return out
}

// View returns the context in the form that an engine reads.
func (s *Session) View() agent.ContextView {
	n := s.Fixed
	for _, m := range s.Active() {
		n += tokens.Message(m)
	}
	return agent.ContextView{Messages: s.Active(), First: s.start, FixedTokens: s.Fixed, Tokens: n}
}

// Adopt applies a compaction.
func (s *Session) Adopt(p agent.Compaction) {
	s.spans = append(s.spans, [2]int{s.start + p.From, s.start + p.To})
	s.start = len(s.rows)
	s.Append(p.Messages...)
}

// Rows returns the existing rows with numbers from (inclusive) to to
// (exclusive).
func (s *Session) Rows(_ context.Context, from, to int) ([]llm.Message, error) {
	if from < 0 || from > to {
		return nil, fmt.Errorf("rows %d to %d", from, to)
	}
	return slices.Clone(s.rows[min(from, len(s.rows)):min(to, len(s.rows))]), nil
}

// Holds reports whether a message contains text.
func Holds(ms []llm.Message, text string) bool {
	return slices.ContainsFunc(ms, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool {
			return strings.Contains(b.Text, text) || strings.Contains(string(b.Input), text)
		})
	})
}

// A Clerk is a summary model that writes down every fact it reads, within its
// budget. A fact is "fact-" followed by digits. It is not safe for concurrent
// use.
type Clerk struct {
	Size  int // context length in tokens; 0 is 200,000
	Extra string
	Calls int
	// Most is the size of the largest request, in tokens.
	Most int
	Fail func(n int) (summary.Answer, error) // called with the call number; nil never fails
}

func (c *Clerk) Window() int {
	if c.Size == 0 {
		return 200_000
	}
	return c.Size
}

var factPattern = regexp.MustCompile(`fact-\d+`)

func (c *Clerk) Complete(ctx context.Context, r summary.Request) (summary.Answer, error) {
	c.Calls++
	c.Most = max(c.Most, tokens.Text(r.Prompt))
	if err := ctx.Err(); err != nil {
		return summary.Answer{}, err
	}
	if c.Fail != nil {
		if a, err := c.Fail(c.Calls); err != nil || a.Text != "" {
			return a, err
		}
	}
	facts := factPattern.FindAllString(r.Prompt, -1)
	slices.Sort(facts)
	return summary.Answer{Text: Body(strings.Join(slices.Compact(facts), " ") + c.Extra), Model: "clerk", Usage: llm.Usage{Input: tokens.Text(r.Prompt), Output: 100}}, nil
}

// Headings returns the headings of a summary, in order.
func Headings() []string {
	return []string{
		"## Goal", "## Constraints & Preferences", "## Progress", "### Done", "### In Progress", "### Blocked",
		"## Key Decisions", "## Relevant Files", "## Next Steps", "## Critical Context",
	}
}

// Body returns a summary with all headings and with text in the last section.
func Body(text string) string {
	h := Headings()
	return strings.Join(h[:len(h)-1], "\n- x\n") + "\n- x\n" + h[len(h)-1] + "\n" + text
}

// toolUse and toolResult return the blocks of a tool loop.
func toolUse(id, input string) llm.Block {
	return llm.Block{Type: llm.ToolUse, ID: id, Name: "look", Input: json.RawMessage(input)}
}

func toolResult(id, text string) llm.Block {
	return llm.Block{Type: llm.ToolResult, ID: id, Text: text}
}
