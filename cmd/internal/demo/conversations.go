package demo

import (
	"context"
	"strings"

	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
)

// showConversations shows a conversation on each platform, all three concurrently.
func (t *demoRun) showConversations(ctx context.Context) error {
	t.heading("Three platforms, one agent")
	said, texts := make([][]printedMessage, len(t.conversations)), make([][]string, len(t.conversations))
	for i, r := range t.conversations {
		for _, text := range map[chat.Platform][]string{
			chat.Telegram: {"Hello!", "what is 12 * 34?"},
			chat.Discord:  {"what is 7 * 6?", "please read file shopping.txt"},
			chat.Slack:    {"what is 100 / 8?", "what is (3 + 4) * 5?"},
		}[r.platform()] {
			texts[i] = append(texts[i], t.number(text))
		}
	}
	err := t.forEach(func(i int, r conversation) error {
		for _, text := range texts[i] {
			one, err := t.ask(ctx, r, text)
			if err != nil {
				return err
			}
			said[i] = append(said[i], one...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.columns(t.conversations, said)
	return nil
}

// showHistory shows the history of messages, including one that was not answered.
func (t *demoRun) showHistory(ctx context.Context) error {
	t.heading("Closed by default, and nothing is silent")
	eve := message{id: t.eveChat.Say(t.eve, "let me in").ID, text: "let me in"}
	if err := t.waitAnswered(ctx, eve); err != nil {
		return err
	}
	t.paragraph("Eve, whom nobody has allowed, writes to the bot on Discord: %q. She is told a code that only the operator can approve, and the agent hears nothing of it:", eve.text)
	if err := t.printHistory(ctx, eve); err != nil {
		return err
	}
	m := t.conversation(chat.Slack).say(t.number("thank you"))
	if err := t.waitAnswered(ctx, m); err != nil {
		return err
	}
	t.newAnswers(t.conversation(chat.Slack))
	t.paragraph("Ann, on Slack: %q. What became of it:", m.text)
	return t.printHistory(ctx, m)
}

// printHistory prints the output of `hermesd why` for a message.
func (t *demoRun) printHistory(ctx context.Context, m message) error {
	c, err := t.messageHistory(ctx, m)
	if err != nil {
		return err
	}
	t.print("  " + bold.Render("$ hermesd why "+m.id))
	for line := range strings.Lines(text.Clean(control.FormatHistory(c))) {
		line = strings.TrimRight(line, "\n")
		if at := strings.LastIndex(line, " at "); at > 0 && text.Width(line) > t.width-2 {
			line = line[:at] + "\n            " + line[at+1:]
		}
		for part := range strings.SplitSeq(line, "\n") {
			t.print(indent("  ", faint, part, t.width))
		}
	}
	return nil
}
