// Package llm holds the words in which models speak: messages and their
// blocks, requests, the events of an answer, usage, errors, and what a
// provider is. The package imports nothing of ours.
package llm

import "encoding/json"

// A Role says who speaks in a message.
type Role string

// The roles. Tool results stand in messages of the user.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A BlockType says what a block holds.
type BlockType string

// The types of block, and which fields of Block they use.
const (
	Text       BlockType = "text"        // Text
	Image      BlockType = "image"       // MIME, Path
	Thinking   BlockType = "thinking"    // Text; shown to nobody
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
	Path   string          `json:"path,omitempty"` // of an image, on our disk
}

// A Message is one entry of a transcript. Once stored it never changes, and
// each dialect encodes it to the same bytes for ever.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
	// Raw is an assistant's message exactly as its provider sent it, in the
	// wire form of Dialect, so that it can be replayed byte for byte, thinking
	// and signatures included. Other dialects encode Blocks.
	Raw     json.RawMessage `json:"raw,omitempty"`
	Dialect string          `json:"dialect,omitempty"`
}

// UserText returns a message of the user that says text.
func UserText(text string) Message {
	return Message{Role: User, Blocks: []Block{{Type: Text, Text: text}}}
}

// AssistantText returns a message of the assistant that says text.
func AssistantText(text string) Message {
	return Message{Role: Assistant, Blocks: []Block{{Type: Text, Text: text}}}
}

// Text returns what m says in words, its text blocks one after the other.
func (m Message) Text() string {
	var s string
	for _, b := range m.Blocks {
		if b.Type == Text {
			s += b.Text
		}
	}
	return s
}

// ToolUses returns the calls that m makes, in order.
func (m Message) ToolUses() []Block {
	var calls []Block
	for _, b := range m.Blocks {
		if b.Type == ToolUse {
			calls = append(calls, b)
		}
	}
	return calls
}

// A Tool is what a model is told about a tool.
type Tool struct {
	Name        string          `json:"name"` // ^[a-zA-Z0-9_-]{1,64}$
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the input, an object
}
