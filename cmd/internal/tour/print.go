package tour

import (
	"fmt"
	"strings"

	"hermesd/internal/sim/telegram"
)

func (t *tour) line(format string, args ...any) {
	_, _ = fmt.Fprintf(t.o.Out, format+"\n", args...) // a tour that nobody can see has nobody to tell
}

func (t *tour) title(s string) { t.line("\n── %s", s) }

func (t *tour) said(at *telegram.Chat, who, text string) {
	t.line("%s%-6s %s", t.where(at), who+":", wrap(text))
}

func (t *tour) where(at *telegram.Chat) string {
	if at == t.group {
		return "[Kitchen] "
	}
	return "[direct]  "
}

// news prints what the bot has said in a chat since the last time.
func (t *tour) news(at *telegram.Chat) {
	for _, m := range at.FromBots() {
		id := fmt.Sprint(m.Chat, "/", m.ID)
		if !m.Deleted.IsZero() || t.shown[id] == m.Text {
			continue
		}
		t.shown[id] = m.Text
		for _, v := range m.Versions {
			if strings.HasPrefix(v.Text, "I was restarted") {
				t.line("%s%-6s %s", t.where(at), "bot:", v.Text+"   (then edited into the answer)")
			}
		}
		quoted := ""
		if m.ReplyTo != 0 {
			if q, ok := at.Message(m.ReplyTo); ok {
				quoted = "↪ " + short(q.Text) + "\n                 "
			}
		}
		t.line("%s%-6s %s", t.where(at), "bot:", quoted+wrap(m.Text))
	}
}

func short(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

// wrap keeps a text short and in its column.
func wrap(s string) string {
	if r := []rune(s); len(r) > 400 {
		s = string(r[:400]) + "…"
	}
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n                 ")
}
