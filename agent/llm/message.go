// Package llm defines the types of model calls: messages and their blocks, requests,
// streaming events, usage, classified errors and the Provider interface. It also classifies
// error responses, validates transcripts and caches their encodings. Only Transcript is
// mutable; it must not be used by several goroutines. The clients of services are in the
// packages below it. It imports no other package of this module.
package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A Role is the author of a message.
type Role string

// The roles. Tool results are blocks of user messages.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A BlockType is the type of a block.
type BlockType string

// The block types, with the fields of Block that they use.
const (
	Text       BlockType = "text"        // Text
	Image      BlockType = "image"       // MIME, Path
	Thinking   BlockType = "thinking"    // Text; not part of the answer
	ToolUse    BlockType = "tool_use"    // ID, Name, Input
	ToolResult BlockType = "tool_result" // ID of the call, Text, Failed
)

// A Block is one part of a message.
type Block struct {
	Type   BlockType       `json:"type"`
	Text   string          `json:"text,omitempty"`
	ID     string          `json:"id,omitempty"`
	Name   string          `json:"name,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"` // the bytes that the model sent
	Failed bool            `json:"failed,omitempty"`
	MIME   string          `json:"mime,omitempty"`
	Path   string          `json:"path,omitempty"` // file of an image
}

// A Message is one entry of a transcript. Once stored it never changes, and each dialect
// always encodes it to the same bytes.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
	// Raw is what the provider must get back exactly as it sent it, thinking and signatures
	// included, in the wire form of Dialect: the whole content of an assistant message, or a
	// part of it. Other dialects encode Blocks only.
	Raw     json.RawMessage `json:"raw,omitempty"`
	Dialect string          `json:"dialect,omitempty"`
}

// UserText returns a user message with one text block.
func UserText(text string) Message {
	return Message{Role: User, Blocks: []Block{{Type: Text, Text: text}}}
}

// AssistantText returns an assistant message with one text block.
func AssistantText(text string) Message {
	return Message{Role: Assistant, Blocks: []Block{{Type: Text, Text: text}}}
}

// Text returns the concatenated text blocks of m.
func (m Message) Text() string {
	var s string
	for _, b := range m.Blocks {
		if b.Type == Text {
			s += b.Text
		}
	}
	return s
}

// ToolUses returns the tool calls of m, in order.
func (m Message) ToolUses() []Block {
	var calls []Block
	for _, b := range m.Blocks {
		if b.Type == ToolUse {
			calls = append(calls, b)
		}
	}
	return calls
}

// A Tool is the definition of a tool that is sent to a model.
type Tool struct {
	Name        string          `json:"name"` // ^[a-zA-Z0-9_-]{1,64}$
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the input, an object
}

// Equal reports whether t and u are the same definition, byte for byte.
func (t Tool) Equal(u Tool) bool {
	return t.Name == u.Name && t.Description == u.Description && bytes.Equal(t.Schema, u.Schema)
}

// rawJSON is JSON of a provider whose bytes must survive storage. Encoders compact and
// escape JSON inside JSON, and reject invalid JSON; therefore JSON that they would change
// is stored as a string. A JSON string always holds the original bytes.
type rawJSON []byte

func (e rawJSON) MarshalJSON() ([]byte, error) {
	var same bytes.Buffer
	if len(e) > 0 && (e[0] == '{' || e[0] == '[') && json.Compact(&same, e) == nil {
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, same.Bytes())
		if bytes.Equal(escaped.Bytes(), e) {
			return e, nil
		}
	}
	return json.Marshal(string(e))
}

func (e *rawJSON) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*e = rawJSON(s)
		return nil
	}
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	*e = bytes.Clone(b)
	return nil
}

type plainMessage Message

type storedMessage struct {
	plainMessage
	Raw rawJSON `json:"raw,omitempty"`
}

// MarshalJSON returns the stored form of m. The bytes of Raw survive any number of
// encodings.
func (m Message) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedMessage{plainMessage(m), rawJSON(m.Raw)})
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (m *Message) UnmarshalJSON(b []byte) error {
	var s storedMessage
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*m = Message(s.plainMessage)
	m.Raw = json.RawMessage(s.Raw)
	return nil
}

type plainBlock Block

type storedBlock struct {
	plainBlock
	Input rawJSON `json:"input,omitempty"`
}

// MarshalJSON returns the stored form of b. The bytes of Input survive it, whether they
// are valid JSON or not.
func (b Block) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedBlock{plainBlock(b), rawJSON(b.Input)})
}

// UnmarshalJSON decodes the stored form of a block.
func (b *Block) UnmarshalJSON(data []byte) error {
	var s storedBlock
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*b = Block(s.plainBlock)
	b.Input = json.RawMessage(s.Input)
	return nil
}

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
