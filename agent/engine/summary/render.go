package summary

import (
	"strings"
	"unicode/utf8"

	"hermesd/agent/llm"
)

// Maximum lengths, in code points, of texts and call inputs that are shown to
// the summary model.
const (
	maxBody  = 6000
	bodyHead = 4000
	bodyTail = 1500
	maxInput = 1500
)

// RenderMessages returns each message in the form that the summary model reads.
func RenderMessages(ms []llm.Message) []string {
	out := make([]string, 0, len(ms))
	for _, m := range ms {
		if s := renderMessage(m); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func renderMessage(m llm.Message) string {
	var b strings.Builder
	line := func(label, text string) {
		if strings.TrimSpace(text) == "" {
			return
		}
		text = escapeTags(truncateMiddle(text))
		b.Grow(len(label) + len(text) + 1)
		b.WriteString(label)
		b.WriteString(text)
		b.WriteByte('\n')
	}
	who := "[USER]: "
	if m.Role == llm.Assistant {
		who = "[ASSISTANT]: "
	}
	for _, k := range m.Blocks {
		switch k.Type {
		case llm.Text:
			line(who, k.Text)
		case llm.Image:
			line(who, "(a picture)")
		case llm.ToolUse:
			line("[Tool call "+k.ID+"]: ", k.Name+" "+clip(string(k.Input), maxInput))
		case llm.ToolResult:
			label := "[TOOL RESULT " + k.ID + "]: "
			if k.Failed {
				label = "[TOOL RESULT " + k.ID + ", failed]: "
			}
			line(label, k.Text)
		}
	}
	return b.String()
}

var tagEscaper = strings.NewReplacer("<conversation", "<\u200bconversation", "</conversation", "</\u200bconversation",
	"<summary", "<\u200bsummary", "</summary", "</\u200bsummary")

// escapeTags keeps text inside the tags that enclose it.
func escapeTags(s string) string {
	if strings.IndexByte(s, '<') < 0 {
		return s
	}
	return tagEscaper.Replace(s)
}

func truncateMiddle(s string) string {
	if len(s) <= maxBody {
		return s
	}
	if n := utf8.RuneCountInString(s); n > maxBody {
		r := []rune(s)
		return string(r[:bodyHead]) + "\n...[truncated]...\n" + string(r[n-bodyTail:])
	}
	return s
}

func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "..."
}

// UserText returns text of the user in ms, as a sample of the user's language.
func UserText(ms []llm.Message) string {
	var b strings.Builder
	for i := len(ms) - 1; i >= 0 && b.Len() < maxBody; i-- {
		if ms[i].Role == llm.User {
			b.WriteString(clip(ms[i].Text(), 500))
			b.WriteByte('\n')
		}
	}
	return b.String()
}
