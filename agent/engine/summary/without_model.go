package summary

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// How much of each kind a plain summary names, and how long an entry is.
const (
	plainAsks    = 8
	plainActions = 12
	plainFiles   = 12
	plainErrors  = 5
	plainEntry   = 300 // code points
)

// WithoutModel is a summary that no model wrote: the last things the user asked for,
// the tools that were used, files and errors that were named. previous is kept,
// as far as the budget goes. The same input gives the same text.
func WithoutModel(previous string, ms []llm.Message, budget int) string {
	s, err := parse(previous)
	if err != nil {
		s = sections{}
		for line := range strings.Lines(strings.ToValidUTF8(previous, "\uFFFD")) {
			s[critical] += clean(strings.TrimRight(line, " \t\r\n")) + "\n"
		}
	}
	f := gather(ms)
	add := func(i int, entries []string, most int) {
		s[i] = strings.TrimSpace(strings.TrimPrefix(s[i], nothing))
		for _, e := range entries[max(0, len(entries)-most):] {
			e = strings.ToValidUTF8(strings.Join(strings.Fields(e), " "), "\uFFFD")
			s[i] += "\n- " + clip(e, plainEntry)
		}
		s[i] = strings.TrimSpace(s[i])
	}
	add(goal, f.asks, plainAsks)
	add(done, f.actions, plainActions)
	add(blocked, f.errors, plainErrors)
	add(files, f.files, plainFiles)
	note := "This summary was made without a model; it names what was asked and done last and leaves out the rest."
	if !strings.Contains(s[critical], note) {
		add(critical, []string{note}, 1)
	}
	return s.fit(budget).String()
}

// The headings that a plain summary fills.
const (
	done     = 3
	blocked  = 5
	files    = 7
	critical = 9
)

type facts struct{ asks, actions, errors, files []string }

var path = regexp.MustCompile(`(?:[\w.~-]*/)+[\w.-]+\.\w{1,8}\b|\b[\w-]+\.(?:go|py|js|ts|md|json|ya?ml|toml|txt|sh|c|h|rs|java|html|css|sql)\b`)

func gather(ms []llm.Message) facts {
	var f facts
	name := func(text string) {
		for _, p := range path.FindAllString(clip(text, maxBody), plainFiles) {
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
				f.actions = append(f.actions, fmt.Sprintf("%s %s", b.Name, compact(b.Input)))
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

func compact(in json.RawMessage) string { return clip(string(in), 200) }
