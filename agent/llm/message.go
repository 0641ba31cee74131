// Package llm defines the types of model calls: messages and their blocks, requests,
// streaming events, usage, classified errors and the Provider interface. It also classifies
// error responses, validates transcripts and caches their encodings. Only Transcript is
// mutable; it must not be used by several goroutines. The clients of services are in the
// packages below it. It imports no other package of this module.
package llm

import (
	"bytes"
	"encoding/json"
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
