package index

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"hermesd/agent/llm"
	"hermesd/gateway/store"
)

// A Role is the author of a row. Tool results have their own role.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Limits of the indexed text of a message, and of the input of one tool call.
const (
	maxText  = 64 << 10 // bytes
	maxInput = 2 << 10
)

// Read returns the role of a row of a transcript and its searchable text:
// texts, tool calls and tool results, but no thinking and no images.
func Read(row store.Doc[llm.Message]) (Role, string, error) { return new(reader).read(row) }

// A reader reads the rows of one session in order. It omits calls and results
// of the search tool: a search must not find its own earlier results.
type reader struct {
	ownTool string // name of the search tool, "" for none
	calls   map[string]bool
}

func (r *reader) read(row store.Doc[llm.Message]) (Role, string, error) {
	m, err := row.Decode()
	if err != nil {
		return "", "", fmt.Errorf("row is not a message: %w", err)
	}
	role := Role(m.Role)
	var parts []string
	hasText, hasResult := false, false
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			parts, hasText = append(parts, b.Text), true
		case llm.ToolUse:
			if b.Name == r.ownTool && r.ownTool != "" {
				r.remember(b.ID)
				continue
			}
			parts = append(parts, "["+b.Name+" "+clip(string(b.Input), maxInput)+"]")
		case llm.ToolResult:
			if hasResult = true; !r.calls[b.ID] {
				parts = append(parts, b.Text)
			}
		}
	}
	if hasResult && !hasText {
		role = Tool
	}
	return role, strings.TrimSpace(strings.Join(parts, "\n")), nil
}

func (r *reader) remember(id string) {
	if r.calls == nil {
		r.calls = map[string]bool{}
	}
	r.calls[id] = true
}

// clean returns a text as it is stored: valid UTF-8, in NFC, at most maxText
// bytes before normalization.
func clean(text string) string {
	return norm.NFC.String(strings.ToValidUTF8(clip(text, maxText), "�"))
}

// clip returns at most limit bytes of s, cut between characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
