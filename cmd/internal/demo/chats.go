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

// A room is the place on a platform where Ann talks to the bot.
type room interface {
	platform() chat.Platform
	// name is how people call the place.
	name() string
	// say lets Ann say something to the bot.
	say(text string) message
	// answers are the bot's messages that stand, in order.
	answers() []message
}

// A message is what somebody said.
type message struct {
	id   string // by which the daemon knows it
	text string
}

// telegramRoom is a direct chat.
type telegramRoom struct {
	at *telegram.Chat
	by *telegram.User
}

func (r *telegramRoom) platform() chat.Platform { return chat.Telegram }
func (r *telegramRoom) name() string            { return "direct chat" }

func (r *telegramRoom) say(text string) message { return r.message(r.at.Say(r.by, text)) }

func (r *telegramRoom) answers() (out []message) {
	for _, m := range r.at.FromBots() {
		if m.Deleted.IsZero() {
			out = append(out, r.message(m))
		}
	}
	return out
}

func (r *telegramRoom) message(m telegram.Message) message {
	return message{id: fmt.Sprintf("%d:%d", r.at.ID(), m.ID), text: m.Text}
}

// discordRoom is a channel, and then the thread that the first mention opens.
type discordRoom struct {
	at     *discord.Channel
	by     *discord.User
	bot    *discord.Bot
	thread *discord.Channel // nil: not open yet
}

func (r *discordRoom) platform() chat.Platform { return chat.Discord }
func (r *discordRoom) name() string            { return "#" + r.at.Name() + ", thread" }

func (r *discordRoom) say(text string) message {
	if ts := r.at.Threads(); r.thread == nil && len(ts) > 0 {
		r.thread = ts[0]
	}
	if r.thread == nil {
		return message{id: r.at.Say(r.by, r.bot.User().Mention()+" "+text).ID, text: "@hermes " + text}
	}
	return message{id: r.thread.Say(r.by, text).ID, text: text}
}

// escaped is a character that Discord's clients show as it is.
var escaped = regexp.MustCompile(`\\([[:punct:]])`)

func (r *discordRoom) answers() (out []message) {
	for _, c := range append([]*discord.Channel{r.at}, r.at.Threads()...) {
		for _, m := range c.Messages() {
			if m.From.IsBot() && m.Deleted.IsZero() && m.Text != "" {
				out = append(out, message{id: m.ID, text: escaped.ReplaceAllString(m.Text, "$1")})
			}
		}
	}
	return out
}

// slackRoom is a direct message, or a channel and then the thread of the first
// mention.
type slackRoom struct {
	at      *slack.Channel
	by, bot *slack.User
	thread  string // ts of the first mention
}

func (r *slackRoom) platform() chat.Platform { return chat.Slack }
func (r *slackRoom) name() string            { return "#kitchen, thread" }

func (r *slackRoom) say(text string) message {
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

func (r *slackRoom) answers() (out []message) {
	for _, m := range r.at.FromBots() {
		out = append(out, message{id: r.at.ID() + ":" + m.TS, text: strings.TrimSpace(m.Shown())})
	}
	return out
}
