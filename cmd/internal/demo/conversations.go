package demo

import (
	"context"
	"strings"

	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway"
	"hermesd/gateway/chat"
)

// talk is a conversation on each platform, all three at once.
func (t *tour) talk(ctx context.Context) error {
	t.head("Three platforms, one agent")
	said, texts := make([][]saying, len(t.rooms)), make([][]string, len(t.rooms))
	for i, r := range t.rooms {
		for _, text := range map[chat.Platform][]string{
			chat.Telegram: {"Hello!", "what is 12 * 34?"},
			chat.Discord:  {"what is 7 * 6?", "please read file shopping.txt"},
			chat.Slack:    {"what is 100 / 8?", "what is (3 + 4) * 5?"},
		}[r.platform()] {
			texts[i] = append(texts[i], t.number(text))
		}
	}
	err := t.together(func(i int, r room) error {
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
	t.columns(t.rooms, said)
	return nil
}

// asked shows what the daemon knows of messages, also of those that it did not
// answer.
func (t *tour) asked(ctx context.Context) error {
	t.head("Closed by default, and nothing is silent")
	eve := message{id: t.stranger.Say(t.eve, "let me in").ID, text: "let me in"}
	if err := t.answered(ctx, eve); err != nil {
		return err
	}
	t.say("Eve, whom nobody has allowed, writes to the bot on Discord: %q. She is told a code that only the operator can approve, and the agent hears nothing of it:", eve.text)
	if err := t.story(ctx, eve); err != nil {
		return err
	}
	m := t.room(chat.Slack).say(t.number("thank you"))
	if err := t.answered(ctx, m); err != nil {
		return err
	}
	t.news(t.room(chat.Slack))
	t.say("Ann, on Slack: %q. What became of it:", m.text)
	return t.story(ctx, m)
}

// story prints what `hermesd why` says of a message.
func (t *tour) story(ctx context.Context, m message) error {
	c, err := t.why(ctx, m)
	if err != nil {
		return err
	}
	t.print("  " + bold.Render("$ hermesd why "+m.id))
	for line := range strings.Lines(text.Clean(gateway.FormatHistory(c))) {
		line = strings.TrimRight(line, "\n")
		if at := strings.LastIndex(line, " at "); at > 0 && text.Width(line) > t.width-2 {
			line = line[:at] + "\n            " + line[at+1:]
		}
		for part := range strings.SplitSeq(line, "\n") {
			t.print(hang("  ", faint, part, t.width))
		}
	}
	return nil
}
