package llm

import (
	"fmt"
	"strings"
)

// ValidToolCallID reports whether every dialect accepts id as the ID of a tool call: up to
// 64 letters, digits, underscores and hyphens.
func ValidToolCallID(id string) bool { return isValidName(id) }

// ValidToolName reports whether every dialect accepts name as the name of a tool. The
// syntax is that of ValidToolCallID.
func ValidToolName(name string) bool { return isValidName(name) }

func isValidName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// ValidateMessages returns nil if every provider accepts ms as a transcript, and otherwise
// why not. The first message is the user's, roles alternate, no message is empty, each tool
// call is answered exactly once at the beginning of the next message, and IDs, names and
// inputs have a form that all dialects can represent.
func ValidateMessages(ms []Message) error {
	used := map[string]bool{}
	var open []Block // calls of the message before
	for i, m := range ms {
		want := User
		if i%2 == 1 {
			want = Assistant
		}
		if m.Role != want {
			return fmt.Errorf("message %d has role %s, want %s", i, m.Role, want)
		}
		if len(m.Blocks) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		var err error
		if m.Role == Assistant {
			err = validateAssistant(m, used)
		} else {
			err = validateUser(m, open)
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

func validateAssistant(m Message, used map[string]bool) error {
	hasContent := false
	for _, b := range m.Blocks {
		switch b.Type {
		case Text:
			if strings.TrimSpace(b.Text) == "" {
				return fmt.Errorf("blank text block")
			}
			hasContent = true
		case Thinking:
		case ToolUse:
			switch {
			case !isValidName(b.ID):
				return fmt.Errorf("invalid call id %q", b.ID)
			case used[b.ID]:
				return fmt.Errorf("duplicate call id %s", b.ID)
			case !isValidName(b.Name):
				return fmt.Errorf("invalid tool name %q", b.Name)
			case !ValidInput(b.Input):
				return fmt.Errorf("input of call %s is not a JSON object", b.ID)
			}
			used[b.ID] = true
			hasContent = true
		default:
			return fmt.Errorf("block type %q in an assistant message", b.Type)
		}
	}
	if !hasContent {
		return fmt.Errorf("neither text nor calls")
	}
	return nil
}

func validateUser(m Message, open []Block) error {
	pending := map[string]bool{}
	for _, b := range open {
		pending[b.ID] = true
	}
	results := true
	for _, b := range m.Blocks {
		switch b.Type {
		case ToolResult:
			if !results {
				return fmt.Errorf("result of call %s follows other blocks", b.ID)
			}
			if !pending[b.ID] {
				return fmt.Errorf("result of call %q, which is not open", b.ID)
			}
			delete(pending, b.ID)
		case Text:
			results = false
			if strings.TrimSpace(b.Text) == "" {
				return fmt.Errorf("blank text block")
			}
		case Image:
			results = false
		default:
			return fmt.Errorf("block type %q in a user message", b.Type)
		}
	}
	for _, b := range open {
		if pending[b.ID] {
			return fmt.Errorf("call %s has no result", b.ID)
		}
	}
	return nil
}
