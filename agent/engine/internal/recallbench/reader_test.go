package recallbench_test

import (
	"context"
	"strings"

	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A Reader is a summary model without knowledge of facts. It keeps the first
// sentence of each message, in order, until its budget is spent, and drops the
// rest. When it updates a summary, it keeps its beginning, in at most half of
// the budget. It is not safe for concurrent use.
type Reader struct {
	Size int // context length in tokens
	// Usage is the token usage of all calls.
	Usage llm.Usage
}

func (r *Reader) Window() int { return r.Size }

// headingsCost is the number of tokens of the headings.
const headingsCost = 60

func (r *Reader) Complete(_ context.Context, q summary.Request) (summary.Answer, error) {
	left := q.MaxTokens/2 - headingsCost
	out, spent := takeLines(summaryEntries(tagContent(q.Prompt, "summary")), left/2)
	more, _ := takeLines(firstSentences(tagContent(q.Prompt, "conversation")), left-spent)
	text := enginetest.Body(strings.Join(append(out, more...), "\n"))
	u := llm.Usage{Input: tokens.Text(q.Prompt), Output: tokens.Text(text)}
	r.Usage = r.Usage.Add(u)
	return summary.Answer{Text: text, Usage: u, Model: "reader"}, nil
}

// tagContent returns the text between the tags called name.
func tagContent(prompt, name string) string {
	_, rest, _ := strings.Cut(prompt, "\n<"+name+">\n")
	text, _, _ := strings.Cut(rest, "</"+name+">")
	return text
}

const bullet = "- "

func summaryEntries(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, bullet) && line != "- x" {
			out = append(out, line)
		}
	}
	return out
}

// firstSentences returns the first sentence of each message, and the entries of
// summaries.
func firstSentences(text string) (out []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, bullet) && line != "- x" {
			out = append(out, line)
		}
		for _, who := range []string{"[USER]: ", "[ASSISTANT]: "} {
			if said, ok := strings.CutPrefix(line, who); ok {
				out = append(out, bullet+firstSentence(said))
			}
		}
	}
	return out
}

func firstSentence(said string) string {
	for _, stop := range []string{"。", ". "} {
		if i := strings.Index(said, stop); i >= 0 {
			return said[:i+len(stop)]
		}
	}
	return said
}

// takeLines returns the first lines that have at most budget tokens together.
func takeLines(lines []string, budget int) (out []string, spent int) {
	for _, line := range lines {
		n := tokens.Text(line) + 1
		if spent+n > budget {
			break
		}
		out, spent = append(out, line), spent+n
	}
	return out, spent
}
