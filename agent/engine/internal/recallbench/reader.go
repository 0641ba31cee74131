package recallbench

import (
	"context"
	"strings"

	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A Reader is a summary model that knows nothing of facts. It keeps the first
// sentence of each message, in order, until its budget is spent, and drops the
// rest; of a summary that it updates it keeps the beginning, in half of the
// budget at most. Its methods are not called concurrently.
type Reader struct {
	Size int // window
	// Usage is what all calls used.
	Usage llm.Usage
}

// Window implements summary.Summariser.
func (r *Reader) Window() int { return r.Size }

// headingsCost is what the headings take of a budget.
const headingsCost = 60

// Complete implements summary.Summariser.
func (r *Reader) Complete(_ context.Context, q summary.Request) (summary.Answer, error) {
	left := q.MaxTokens/2 - headingsCost
	out, spent := take(listed(part(q.Prompt, "summary")), left/2)
	more, _ := take(firsts(part(q.Prompt, "conversation")), left-spent)
	text := enginetest.Body(strings.Join(append(out, more...), "\n"))
	u := llm.Usage{Input: tokens.Text(q.Prompt), Output: tokens.Text(text)}
	r.Usage = r.Usage.Add(u)
	return summary.Answer{Text: text, Usage: u, Model: "reader"}, nil
}

// part is what stands in prompt between the tags called name.
func part(prompt, name string) string {
	_, rest, _ := strings.Cut(prompt, "\n<"+name+">\n")
	text, _, _ := strings.Cut(rest, "</"+name+">")
	return text
}

const bullet = "- "

// listed are the entries of a summary.
func listed(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, bullet) && line != "- x" {
			out = append(out, line)
		}
	}
	return out
}

// firsts are the first sentences of what was said, and the entries of summaries.
func firsts(text string) (out []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, bullet) && line != "- x" {
			out = append(out, line)
		}
		for _, who := range []string{"[USER]: ", "[ASSISTANT]: "} {
			if said, ok := strings.CutPrefix(line, who); ok {
				out = append(out, bullet+first(said))
			}
		}
	}
	return out
}

func first(said string) string {
	for _, stop := range []string{"。", ". "} {
		if i := strings.Index(said, stop); i >= 0 {
			return said[:i+len(stop)]
		}
	}
	return said
}

// take returns the first lines that have at most budget tokens together.
func take(lines []string, budget int) (out []string, spent int) {
	for _, line := range lines {
		n := tokens.Text(line) + 1
		if spent+n > budget {
			break
		}
		out, spent = append(out, line), spent+n
	}
	return out, spent
}
