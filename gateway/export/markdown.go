package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"hermesd/agent/llm"
)

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
	fmt.Fprintf(b, "# %s\n\n", oneLine(c.maskText(cmp.Or(r.Title, r.Name, string(r.ID)))))
	fmt.Fprintf(b, "- session: `%s`\n- where: `%s`\n- begun: %s\n- last: %s\n- messages: %d, %d archived\n",
		r.ID, oneLine(c.maskText(r.Address.String())), formatTime(r.Created), formatTime(r.Updated), r.Messages, r.Archived())
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
			b.WriteString("\n" + strings.TrimRight(c.maskText(bl.Text), "\n") + "\n")
		case llm.ToolUse:
			fmt.Fprintf(b, "\nCall of `%s`:\n\n%s", bl.Name, codeBlock(c.maskText(string(bl.Input)), "json"))
		case llm.ToolResult:
			what := "Result"
			if bl.Failed {
				what = "Error"
			}
			fmt.Fprintf(b, "\n%s of `%s`:\n\n%s", what, bl.ID, codeBlock(c.maskText(bl.Text), ""))
		case llm.Image:
			fmt.Fprintf(b, "\n[image, %s, %s]\n", bl.MIME, oneLine(c.maskText(bl.Path)))
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
