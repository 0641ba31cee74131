package tool

import (
	"encoding/json"
	"strings"
)

// shownInput is how many characters of a tool's input are shown.
const shownInput = 60

// InputSummary is what a call is about: the first telling string of its input, shortened,
// as Markdown; "" if there is none.
func InputSummary(input json.RawMessage) string {
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
