package llm

import (
	"fmt"
	"strings"
)

// ValidToolCallID reports whether every dialect takes id as that of a tool call: up to
// 64 letters, digits, underscores and dashes.
func ValidToolCallID(id string) bool { return legal(id) }

// ValidToolName reports whether every dialect takes name as that of a tool; the form
// is the same.
func ValidToolName(name string) bool { return legal(name) }

func legal(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// ValidateMessages reports why no provider would take ms as a transcript, nil if every one
// does: the user begins, roles alternate, no message is empty, each tool call
// is answered exactly once at the beginning of the next message, and ids,
// names and inputs have the form that all dialects can carry.
func ValidateMessages(ms []Message) error {
	used := map[string]bool{}
	var open []Block // calls of the message before
	for i, m := range ms {
		want := User
		if i%2 == 1 {
			want = Assistant
		}
		if m.Role != want {
			return fmt.Errorf("message %d is the %s's, want the %s's", i, m.Role, want)
		}
		if len(m.Blocks) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		var err error
		if m.Role == Assistant {
			err = legalAnswer(m, used)
		} else {
			err = legalInput(m, open)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		open = m.ToolUses()
	}
	if len(open) > 0 {
		return fmt.Errorf("call %s of the last message has no result", open[0].ID)
	}
	return nil
}

func legalAnswer(m Message, used map[string]bool) error {
	said := false
	for _, b := range m.Blocks {
		switch b.Type {
		case Text:
			if strings.TrimSpace(b.Text) == "" {
				return fmt.Errorf("a text without words")
			}
			said = true
		case Thinking:
		case ToolUse:
			switch {
			case !legal(b.ID):
				return fmt.Errorf("call id %q", b.ID)
			case used[b.ID]:
				return fmt.Errorf("call id %s is used twice", b.ID)
			case !legal(b.Name):
				return fmt.Errorf("tool name %q", b.Name)
			case !ValidInput(b.Input):
				return fmt.Errorf("the input of call %s is not an object", b.ID)
			}
			used[b.ID] = true
			said = true
		default:
			return fmt.Errorf("a block %q of the assistant", b.Type)
		}
	}
	if !said {
		return fmt.Errorf("neither words nor calls")
	}
	return nil
}

func legalInput(m Message, open []Block) error {
	pending := map[string]bool{}
	for _, b := range open {
		pending[b.ID] = true
	}
	results := true
	for _, b := range m.Blocks {
		switch b.Type {
		case ToolResult:
			if !results {
				return fmt.Errorf("the result of call %s stands behind other blocks", b.ID)
			}
			if !pending[b.ID] {
				return fmt.Errorf("a result of call %q, which is not open", b.ID)
			}
			delete(pending, b.ID)
		case Text:
			results = false
			if strings.TrimSpace(b.Text) == "" {
				return fmt.Errorf("a text without words")
			}
		case Image:
			results = false
		default:
			return fmt.Errorf("a block %q of the user", b.Type)
		}
	}
	for _, b := range open {
		if pending[b.ID] {
			return fmt.Errorf("call %s has no result", b.ID)
		}
	}
	return nil
}
