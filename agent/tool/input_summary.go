package tool

import (
	"encoding/json"
	"strings"
)

// maxSummary is the maximum length of an InputSummary in characters, without the quotes.
const maxSummary = 60

// InputSummary returns a short description of a call for people: the first informative
// string of its input, shortened, as Markdown code. It is "" if there is none.
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
		if r := []rune(s); len(r) > maxSummary {
			s = string(r[:maxSummary]) + "…"
		}
		return "`" + s + "`"
	}
	return ""
}
