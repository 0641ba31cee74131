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

// Markdown writes c as a document to read: a heading per message, calls of tools
// and their results in code blocks. Texts of people stand as they are.
func (c Conversation) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	c.head(b)
	archived := false
	for i, m := range c.Messages {
		switch {
		case m.Archived && !archived:
			b.WriteString("\n## Archived messages\n\nA compaction took these out of what the model is told.\n")
		case !m.Archived && (archived || i == 0):
			b.WriteString("\n## Messages\n")
		}
		archived = m.Archived
		c.message(b, m)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("export %s: %w", c.Record.ID, err)
	}
	return nil
}

func (c Conversation) head(b *bufio.Writer) {
	r := c.Record
	fmt.Fprintf(b, "# %s\n\n", oneLine(c.mask(cmp.Or(r.Title, r.Name, string(r.ID)))))
	fmt.Fprintf(b, "- session: `%s`\n- where: `%s`\n- begun: %s\n- last: %s\n- messages: %d, %d archived\n",
		r.ID, oneLine(c.mask(r.Address.String())), formatTime(r.Created), formatTime(r.Updated), r.Messages, r.Archived())
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (c Conversation) message(b *bufio.Writer, m Message) {
	fmt.Fprintf(b, "\n### %d %s", m.Row, speaker(m))
	if !m.At.IsZero() {
		b.WriteString(", " + formatTime(m.At))
	}
	b.WriteString("\n")
	for _, bl := range m.Blocks {
		switch bl.Type {
		case llm.Text:
			b.WriteString("\n" + strings.TrimRight(c.mask(bl.Text), "\n") + "\n")
		case llm.ToolUse:
			fmt.Fprintf(b, "\nCall of `%s`:\n\n%s", bl.Name, fenced(c.mask(string(bl.Input)), "json"))
		case llm.ToolResult:
			what := "Result"
			if bl.Failed {
				what = "Error"
			}
			fmt.Fprintf(b, "\n%s of `%s`:\n\n%s", what, bl.ID, fenced(c.mask(bl.Text), ""))
		case llm.Image:
			fmt.Fprintf(b, "\n[image, %s, %s]\n", bl.MIME, oneLine(c.mask(bl.Path)))
		case llm.Thinking: // shown to nobody
		}
	}
}

// speaker says who speaks in a message: results of tools stand in messages of
// the user.
func speaker(m Message) string {
	for _, bl := range m.Blocks {
		if bl.Type == llm.ToolResult {
			return "tool"
		}
	}
	return string(m.Role)
}

// fenced is text in a code block that nothing in it can end.
func fenced(text, language string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}
