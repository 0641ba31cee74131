package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/session"
)

// A Header is the first line of a JSONL export.
type Header struct {
	Session  session.ID `json:"session"`
	Where    string     `json:"where"`
	Title    string     `json:"title,omitempty"`
	Created  time.Time  `json:"created"`
	Updated  time.Time  `json:"updated"`
	Messages int        `json:"messages"`
	Archived int        `json:"archived"`
}

// A Line is one message of a JSONL export.
type Line struct {
	Row      int       `json:"row"`
	Archived bool      `json:"archived,omitempty"`
	Role     string    `json:"role"` // user, assistant or tool
	Time     time.Time `json:"time,omitzero"`
	Blocks   []Block   `json:"blocks"`
}

// A Block is one part of a message.
type Block struct {
	Type   llm.BlockType   `json:"type"` // text, image, tool_use or tool_result
	Text   string          `json:"text,omitempty"`
	ID     string          `json:"id,omitempty"` // of a call and of its result
	Name   string          `json:"name,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Failed bool            `json:"failed,omitempty"`
	MIME   string          `json:"mime,omitempty"`
	Path   string          `json:"path,omitempty"`
}

// JSONL writes c as JSON Lines: a Header, then one Line per message.
func (c Conversation) JSONL(w io.Writer) error {
	b := bufio.NewWriter(w)
	out := json.NewEncoder(b)
	out.SetEscapeHTML(false)
	r := c.Record
	err := out.Encode(Header{
		Session: r.ID, Where: c.maskText(r.Address.String()), Title: c.maskText(r.Title), Created: r.Created.UTC(), Updated: r.Updated.UTC(),
		Messages: r.Messages, Archived: r.Archived(),
	})
	for _, m := range c.Messages {
		if err != nil {
			break
		}
		err = out.Encode(c.toLine(m))
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", c.Record.ID, err)
	}
	return nil
}

func (c Conversation) toLine(m Message) Line {
	l := Line{Row: m.Row, Archived: m.Archived, Role: roleOf(m), Time: m.At, Blocks: []Block{}}
	for _, bl := range m.Blocks {
		if bl.Type == llm.Thinking { // not exported
			continue
		}
		l.Blocks = append(l.Blocks, Block{
			Type: bl.Type, Text: c.maskText(bl.Text), ID: bl.ID, Name: bl.Name, Input: c.maskInput(bl.Input), Failed: bl.Failed, MIME: bl.MIME, Path: c.maskText(bl.Path),
		})
	}
	return l
}

// maskInput masks secrets in a tool input. If the result is not valid JSON it is
// returned as a JSON string.
func (c Conversation) maskInput(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	text := c.maskText(string(raw))
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil { // cannot happen for a string
		return nil
	}
	return quoted
}
