package demo

import (
	"io"

	"hermesd/cmd/internal/setup"
	"hermesd/gateway/chat"
)

// Holds returns the error for lost messages and prefix breaks.
func Holds(lost map[chat.Platform]int, breaks map[string]int) error {
	vs := make(map[chat.Platform]result)
	for p, n := range lost {
		vs[p] = result{ok: n == 0, wanted: 2, answered: 2 - n, lost: n, words: "lost"}
	}
	return checkGuarantees(vs, breaks)
}

// Unasked is Holds for a platform on which no message was sent.
func Unasked(p chat.Platform) error {
	return checkGuarantees(map[chat.Platform]result{p: {ok: true}}, nil)
}

// Columns prints a conversation on each platform, next to each other.
func Columns(out io.Writer, width int, text string) {
	var said [][]printedMessage
	rooms := []conversation{&telegramChat{}, &slackChat{}, &telegramChat{}}
	for range rooms {
		said = append(said, []printedMessage{{text: text}, {bot: true, text: text}})
	}
	newScreen(out, width, nil).columns(rooms, said)
}

// Permissions are the permissions of the bot on Discord.
const Permissions = permissions

// Manifest returns the manifest of the app on Slack.
func Manifest() string { return setup.SlackManifest(nil) }
