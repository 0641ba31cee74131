package turn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"hermesd/agent"
)

// shownInput is how many characters of a tool's input are shown.
const shownInput = 60

// progress is the line that shows a tool call while the answer is on its way;
// "" for none.
func (t *turn) progress(c agent.ToolCall) string {
	n := len(t.trace.Tools)
	switch cmp.Or(t.s.rec.Settings.Progress, t.r.o.Progress) {
	case "new":
		if n > 0 && t.trace.Tools[n-1] == c.Name {
			return ""
		}
		return "🔧 " + c.Name
	case "all":
		return strings.TrimSpace("🔧 " + c.Name + " " + gist(c.Input))
	case "verbose":
		return fmt.Sprintf("🔧 %s `%s`", c.Name, strings.ReplaceAll(string(c.Input), "`", "'"))
	}
	return ""
}

// gist is the first string in a tool's input, shortened.
func gist(input json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(input, &m) != nil {
		return ""
	}
	for _, key := range []string{"path", "query", "pattern", "command", "url", "name"} {
		s, ok := m[key].(string)
		if !ok || s == "" {
			continue
		}
		s = strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "`", "'")
		if r := []rune(s); len(r) > shownInput {
			s = string(r[:shownInput]) + "…"
		}
		return "`" + s + "`"
	}
	return ""
}
