package demo

import (
	"io"

	"hermesd/cmd/internal/setup"
	"hermesd/gateway/chat"
)

// Holds says which promise verdicts and breaks show to be broken.
func Holds(lost map[chat.Platform]int, breaks map[string]int) error {
	vs := make(map[chat.Platform]verdict)
	for p, n := range lost {
		vs[p] = verdict{ok: n == 0, wanted: 2, answered: 2 - n, lost: n, words: "lost"}
	}
	return holds(vs, breaks)
}

// Unasked is Holds for a platform on which nobody has asked anything.
func Unasked(p chat.Platform) error { return holds(map[chat.Platform]verdict{p: {ok: true}}, nil) }

// Columns prints a conversation on each platform, side by side.
func Columns(out io.Writer, width int, text string) {
	var said [][]saying
	rooms := []room{&telegramRoom{}, &slackRoom{}, &telegramRoom{}}
	for range rooms {
		said = append(said, []saying{{text: text}, {bot: true, text: text}})
	}
	newScreen(out, width, nil).columns(rooms, said)
}

// Permissions are those of the bot on Discord.
const Permissions = permissions

// Manifest is that of the app on Slack.
func Manifest() string { return setup.SlackManifest(nil) }
