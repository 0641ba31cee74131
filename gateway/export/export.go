// Package export writes a conversation as Markdown or as JSON Lines. Archived messages
// come first and are marked; thinking blocks are omitted and secrets are masked. Read
// returns a Conversation, whose methods write it.
package export

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A Message is one transcript row.
type Message struct {
	Row      int       // row number
	Archived bool      // removed from the active transcript by a compaction
	At       time.Time // zero if unknown
	llm.Message
}

// A Conversation is a session with all its messages, including archived ones.
type Conversation struct {
	Record   session.Record
	Messages []Message
	Mask     func(string) string // masks secrets
}

// Read reads all messages of the session as of r. mask masks secrets when the
// conversation is written.
func Read(ctx context.Context, s store.Sessions, r session.Record, mask func(string) string) (Conversation, error) {
	c := Conversation{Record: r, Mask: mask}
	spans := append(r.Archive[:len(r.Archive):len(r.Archive)], r.Active())
	for _, span := range spans {
		messages, err := store.LoadMessages(ctx, s, r.ID, span)
		if err != nil {
			return c, fmt.Errorf("export: %w", err)
		}
		for i, m := range messages {
			c.Messages = append(c.Messages, Message{Row: span.From + i, Archived: span.From+i < r.Start, Message: m})
		}
	}
	calls, err := store.LoadCalls(ctx, s, r.ID, 0)
	if err != nil {
		return c, fmt.Errorf("export: %w", err)
	}
	c.setTimes(calls)
	return c, nil
}

// setTimes sets the times of the answers after the last compaction: a call with n
// messages produced message n. Rows have no times themselves.
func (c Conversation) setTimes(calls []ledger.Record) {
	at := make(map[int]time.Time)
	minMessages := c.Record.Messages
	for _, rec := range slices.Backward(calls) {
		if rec.Messages > minMessages { // before a compaction
			break
		}
		if minMessages = rec.Messages; at[rec.Messages].IsZero() {
			at[rec.Messages] = rec.CalledAt
		}
	}
	for i, m := range c.Messages {
		if m.Role == llm.Assistant && !m.Archived {
			c.Messages[i].At = at[m.Row-c.Record.Start]
		}
	}
}

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
		Session: r.ID, Where: c.Mask(r.Address.String()), Title: c.Mask(r.Title), Created: r.Created.UTC(), Updated: r.Updated.UTC(),
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
			Type: bl.Type, Text: c.Mask(bl.Text), ID: bl.ID, Name: bl.Name, Input: c.maskInput(bl.Input), Failed: bl.Failed, MIME: bl.MIME, Path: c.Mask(bl.Path),
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
	text := c.Mask(string(raw))
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil { // cannot happen for a string
		return nil
	}
	return quoted
}

// Markdown writes c as a document: a heading per message, tool calls and results in
// code blocks. The text of messages is not escaped.
func (c Conversation) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	c.writeHead(b)
	archived := false
	for i, m := range c.Messages {
		switch {
		case m.Archived && !archived:
			b.WriteString("\n## Archived messages\n\nA compaction took these out of what the model is told.\n")
		case !m.Archived && (archived || i == 0):
			b.WriteString("\n## Messages\n")
		}
		archived = m.Archived
		c.writeMessage(b, m)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("export %s: %w", c.Record.ID, err)
	}
	return nil
}

func (c Conversation) writeHead(b *bufio.Writer) {
	r := c.Record
	fmt.Fprintf(b, "# %s\n\n", oneLine(c.Mask(cmp.Or(r.Title, r.Name, string(r.ID)))))
	fmt.Fprintf(b, "- session: `%s`\n- where: `%s`\n- begun: %s\n- last: %s\n- messages: %d, %d archived\n",
		r.ID, oneLine(c.Mask(r.Address.String())), formatTime(r.Created), formatTime(r.Updated), r.Messages, r.Archived())
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (c Conversation) writeMessage(b *bufio.Writer, m Message) {
	fmt.Fprintf(b, "\n### %d %s", m.Row, roleOf(m))
	if !m.At.IsZero() {
		b.WriteString(", " + formatTime(m.At))
	}
	b.WriteString("\n")
	for _, bl := range m.Blocks {
		switch bl.Type {
		case llm.Text:
			b.WriteString("\n" + strings.TrimRight(c.Mask(bl.Text), "\n") + "\n")
		case llm.ToolUse:
			fmt.Fprintf(b, "\nCall of `%s`:\n\n%s", bl.Name, codeBlock(c.Mask(string(bl.Input)), "json"))
		case llm.ToolResult:
			what := "Result"
			if bl.Failed {
				what = "Error"
			}
			fmt.Fprintf(b, "\n%s of `%s`:\n\n%s", what, bl.ID, codeBlock(c.Mask(bl.Text), ""))
		case llm.Image:
			fmt.Fprintf(b, "\n[image, %s, %s]\n", bl.MIME, oneLine(c.Mask(bl.Path)))
		case llm.Thinking: // not exported
		}
	}
}

// roleOf returns the role shown for a message: "tool" for one with tool results, which
// are stored as user messages.
func roleOf(m Message) string {
	for _, bl := range m.Blocks {
		if bl.Type == llm.ToolResult {
			return "tool"
		}
	}
	return string(m.Role)
}

// codeBlock returns text as a fenced code block, with a fence that does not occur in
// it.
func codeBlock(text, language string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}
