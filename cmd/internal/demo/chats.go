package demo

import (
	"fmt"
	"regexp"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
)

// A conversation is a chat on a platform in which Ann and the bot exchange messages.
type conversation interface {
	platform() chat.Platform
	// name returns the name of the chat for users.
	name() string
	// say sends a message from Ann to the bot.
	say(text string) message
	// answers returns the bot's messages that are not deleted, in order.
	answers() []message
}

// A message is a message of a user or the bot.
type message struct {
	id   string // the platform's key in the daemon
	text string
}

// A telegramChat is a direct chat.
type telegramChat struct {
	at *telegram.Chat
	by *telegram.User
}

func (r *telegramChat) platform() chat.Platform { return chat.Telegram }
func (r *telegramChat) name() string            { return "direct chat" }

func (r *telegramChat) say(text string) message { return r.message(r.at.Say(r.by, text)) }

func (r *telegramChat) answers() (out []message) {
	for _, m := range r.at.FromBots() {
		if m.Deleted.IsZero() {
			out = append(out, r.message(m))
		}
	}
	return out
}

func (r *telegramChat) message(m telegram.Message) message {
	return message{id: fmt.Sprintf("%d:%d", r.at.ID(), m.ID), text: m.Text}
}

// A discordChat is a channel and, once it exists, the thread that the first mention
// opens.
type discordChat struct {
	at     *discord.Channel
	by     *discord.User
	bot    *discord.Bot
	thread *discord.Channel // nil until it is opened
}

func (r *discordChat) platform() chat.Platform { return chat.Discord }
func (r *discordChat) name() string            { return "#" + r.at.Name() + ", thread" }

func (r *discordChat) say(text string) message {
	if ts := r.at.Threads(); r.thread == nil && len(ts) > 0 {
		r.thread = ts[0]
	}
	if r.thread == nil {
		return message{id: r.at.Say(r.by, r.bot.User().Mention()+" "+text).ID, text: "@hermes " + text}
	}
	return message{id: r.thread.Say(r.by, text).ID, text: text}
}

// escaped matches an escaped character, which Discord's clients show without the
// backslash.
var escaped = regexp.MustCompile(`\\([[:punct:]])`)

func (r *discordChat) answers() (out []message) {
	for _, c := range append([]*discord.Channel{r.at}, r.at.Threads()...) {
		for _, m := range c.Messages() {
			if m.From.IsBot() && m.Deleted.IsZero() && m.Text != "" {
				out = append(out, message{id: m.ID, text: escaped.ReplaceAllString(m.Text, "$1")})
			}
		}
	}
	return out
}

// A slackChat is a direct message, or a channel and then the thread of the first
// mention.
type slackChat struct {
	at      *slack.Channel
	by, bot *slack.User
	thread  string // ts of the first mention
}

func (r *slackChat) platform() chat.Platform { return chat.Slack }
func (r *slackChat) name() string            { return "#kitchen, thread" }

func (r *slackChat) say(text string) message {
	switch {
	case r.at.Kind() == slack.DM:
		return message{id: r.at.ID() + ":" + r.at.Say(r.by, text).TS, text: text}
	case r.thread != "":
		m := r.at.Reply(r.by, r.thread, text)
		return message{id: r.at.ID() + ":" + m.TS, text: text}
	}
	m := r.at.Say(r.by, r.bot.Mention()+" "+text)
	r.thread = m.TS
	return message{id: r.at.ID() + ":" + m.TS, text: "@hermes " + text}
}

func (r *slackChat) answers() (out []message) {
	for _, m := range r.at.FromBots() {
		out = append(out, message{id: r.at.ID() + ":" + m.TS, text: strings.TrimSpace(m.Shown())})
	}
	return out
}
