package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"

	"hermesd/agent/injection"
	"hermesd/agent/prompt"
	"hermesd/internal/shorten"
)

// A leftOut counts texts that were left out because of findings.
type leftOut struct {
	items int
	ids   []string
}

// String returns the line that stands for them, "" for none.
func (l leftOut) String() string {
	switch l.items {
	case 0:
		return ""
	case 1:
		return "[1 item left out: " + strings.Join(l.ids, ", ") + "]"
	}
	return fmt.Sprintf("[%d items left out: %s]", l.items, strings.Join(l.ids, ", "))
}

// safe returns a text of the provider without tags of the prompt. ok is false if it looks
// like an attack: it is counted in left, and must not be used.
func (s *Service) safe(text string, left *leftOut) (_ string, ok bool) {
	found := s.scans.Scan(text)
	if len(found) == 0 {
		return prompt.EscapeTags(text), true
	}
	left.items++
	for _, f := range found {
		if !slices.Contains(left.ids, f.ID) {
			left.ids = append(left.ids, f.ID)
		}
	}
	s.parts.Log.Warn("a text of the memory provider is left out, because it looks like prompt injection", zap.String("provider", s.about().Name), zap.String("findings", injection.JoinIDs(found)))
	s.parts.Observe(Call{Kind: LeftOut, Result: "injection"})
	return "", false
}

// clean returns the texts that may be used.
func (s *Service) clean(list []string) (kept []string, left leftOut) {
	for _, text := range list {
		if text, ok := s.safe(text, &left); ok {
			kept = append(kept, text)
		}
	}
	return kept, left
}

// body returns the items of list from one on, as many whole ones as the settings allow.
func (s *Service) body(list []string, from int, left leftOut) string {
	return s.page(list, from, len(list)-from, left)
}

// page is body with at most limit items.
func (s *Service) page(list []string, from, limit int, left leftOut) string {
	var b strings.Builder
	room, n := s.settings().MaxChars, 0
	for _, text := range list[from:min(len(list), from+limit)] {
		line := "- " + strings.ReplaceAll(text, "\n", "\n  ")
		size := utf8.RuneCountInString(line) + 1
		if size > room && n == 0 {
			line, size = shorten.To(line, room-1), room
		}
		if size > room {
			break
		}
		room -= size
		n++
		b.WriteString(line + "\n")
	}
	if left.items > 0 {
		b.WriteString(left.String() + "\n")
	}
	if from+n < len(list) {
		rest := fmt.Sprintf("%d of %d items", n, len(list))
		if from > 0 {
			rest = fmt.Sprintf("%d to %d of %d items", from+1, from+n, len(list))
		}
		if !s.about().NoTools {
			rest += fmt.Sprintf("; %s(offset=%d) shows the rest", recallTool, from+n)
		}
		b.WriteString("[" + rest + "]\n")
	}
	return b.String()
}

// block returns the text of the overlay for a body, "" without one. Package prompt puts it
// between the tags of recalled text.
func (s *Service) block(body string, earlier bool) string {
	if body == "" {
		return ""
	}
	head := "From " + s.about().Label
	if earlier {
		head += ", for an earlier message of this conversation"
	}
	return head + ":\n" + strings.TrimSuffix(body, "\n")
}

// cleanResult returns a result of a tool, JSON or text, that may be used. In JSON each
// string is a text of its own.
func (s *Service) cleanResult(result string) string {
	var left leftOut
	var v any
	d := json.NewDecoder(strings.NewReader(result))
	d.UseNumber()
	if trimmed := strings.TrimSpace(result); !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") || d.Decode(&v) != nil || d.More() {
		text, ok := s.safe(result, &left)
		if !ok {
			text = left.String()
		}
		return text
	}
	changed := false
	v = s.cleanValue(v, &changed)
	if !changed {
		return result
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "[the result cannot be shown]"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cleanValue returns the JSON value v with texts that may be used.
func (s *Service) cleanValue(v any, changed *bool) any {
	switch v := v.(type) {
	case string:
		var left leftOut
		text, ok := s.safe(v, &left)
		if !ok {
			text = left.String()
		}
		*changed = *changed || text != v
		return text
	case []any:
		for i := range v {
			v[i] = s.cleanValue(v[i], changed)
		}
		return v
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[s.cleanValue(k, changed).(string)] = s.cleanValue(e, changed)
		}
		return m
	}
	return v
}
