package summary

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// Limits of the entries of a summary without a model, by kind.
const (
	maxAsks       = 8
	maxActions    = 12
	maxFiles      = 12
	maxErrors     = 5
	maxEntryChars = 300 // code points
)

// WithoutModel returns a summary that is made without a model: the user's last
// requests, the tools that were used, and the files and errors that were named.
// previous is kept as far as the budget allows. The same input gives the same
// text.
func WithoutModel(previous string, ms []llm.Message, budget int) string {
	s, err := parse(previous)
	if err != nil {
		s = sections{}
		for line := range strings.Lines(strings.ToValidUTF8(previous, "\uFFFD")) {
			s[critical] += stripMarkup(strings.TrimRight(line, " \t\r\n")) + "\n"
		}
	}
	f := gatherFacts(ms)
	add := func(i int, entries []string, most int) {
		s[i] = strings.TrimSpace(strings.TrimPrefix(s[i], emptySection))
		for _, e := range entries[max(0, len(entries)-most):] {
			e = strings.ToValidUTF8(strings.Join(strings.Fields(e), " "), "\uFFFD")
			s[i] += "\n- " + clip(e, maxEntryChars)
		}
		s[i] = strings.TrimSpace(s[i])
	}
	add(goal, f.asks, maxAsks)
	add(done, f.actions, maxActions)
	add(blocked, f.errors, maxErrors)
	add(files, f.files, maxFiles)
	note := "This summary was made without a model; it names what was asked and done last and leaves out the rest."
	if !strings.Contains(s[critical], note) {
		add(critical, []string{note}, 1)
	}
	return s.truncateTo(budget).String()
}

// Indexes of the headings that WithoutModel fills.
const (
	done     = 3
	blocked  = 5
	files    = 7
	critical = 9
)

type facts struct{ asks, actions, errors, files []string }

var pathPattern = regexp.MustCompile(`(?:[\w.~-]*/)+[\w.-]+\.\w{1,8}\b|\b[\w-]+\.(?:go|py|js|ts|md|json|ya?ml|toml|txt|sh|c|h|rs|java|html|css|sql)\b`)

func gatherFacts(ms []llm.Message) facts {
	var f facts
	name := func(text string) {
		for _, p := range pathPattern.FindAllString(clip(text, maxBody), maxFiles) {
			f.files = slices.DeleteFunc(f.files, func(q string) bool { return p == q })
			f.files = append(f.files, p)
		}
	}
	for _, m := range ms {
		for _, b := range m.Blocks {
			switch b.Type {
			case llm.Text:
				if m.Role == llm.User && strings.TrimSpace(b.Text) != "" {
					f.asks = append(f.asks, "Asked: "+b.Text)
				}
				name(b.Text)
			case llm.ToolUse:
				f.actions = append(f.actions, fmt.Sprintf("%s %s", b.Name, clipInput(b.Input)))
				name(string(b.Input))
			case llm.ToolResult:
				if b.Failed {
					f.errors = append(f.errors, "Failed: "+b.Text)
				}
			}
		}
	}
	return f
}

func clipInput(in json.RawMessage) string { return clip(string(in), 200) }
