package index

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"hermesd/agent/llm"
)

// A Role says who speaks in a row. Results of tools have one of their own.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// The most of a message that is searched, and of the input of one tool call.
const (
	maxText  = 64 << 10 // bytes
	maxInput = 2 << 10
)

// Read returns who speaks in a row of a transcript and what is to be found of
// it: texts, calls of tools and their results, but no thinking and no pictures.
func Read(row json.RawMessage) (Role, string, error) { return new(reader).read(row) }

// A reader reads the rows of one session in order. What a search has found is
// not to be found again as its result: it leaves out results of own tools.
type reader struct {
	own   string // the name of a tool
	calls map[string]bool
}

func (r *reader) read(row json.RawMessage) (Role, string, error) {
	var m llm.Message
	if err := json.Unmarshal(row, &m); err != nil {
		return "", "", fmt.Errorf("the row is no message: %w", err)
	}
	role := Role(m.Role)
	var parts []string
	said, result := false, false
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			parts, said = append(parts, b.Text), true
		case llm.ToolUse:
			if b.Name == r.own && r.own != "" {
				r.remember(b.ID)
				continue
			}
			parts = append(parts, "["+b.Name+" "+clip(string(b.Input), maxInput)+"]")
		case llm.ToolResult:
			if result = true; !r.calls[b.ID] {
				parts = append(parts, b.Text)
			}
		}
	}
	if result && !said {
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

// clean is a text as it is kept: valid, in NFC, not too long.
func clean(text string) string {
	return norm.NFC.String(strings.ToValidUTF8(clip(text, maxText), "�"))
}

// clip cuts s at a character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
