package command

import (
	"context"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/chat"
)

// confirmTimeout is how long a confirmation question is valid. Older buttons do
// nothing, so that a press on an old message has no unintended effect.
const confirmTimeout = 5 * time.Minute

// restart asks for confirmation, and restarts the daemon on `/restart now` or on the
// button, which carries the time of the question.
func restart(_ context.Context, env Env, c Call) (Result, error) {
	if !env.CanRestart() {
		return Result{Text: c.T("This daemon cannot restart itself: it ends with its terminal.")}, nil
	}
	word, asked, _ := strings.Cut(c.Args, " ")
	switch {
	case word == "":
		now := strconv.FormatInt(time.Now().Unix(), 36)
		return Result{
			Text: c.T("Restart the daemon? What runs is finished first, or goes on afterwards; no message is lost. Press the button, or say `/restart now`."),
			Buttons: [][]chat.Button{{
				{Label: c.T("Restart"), Data: "/restart now " + now},
				{Label: c.T("Cancel"), Data: "/restart cancel"},
			}},
		}, nil
	case word == "cancel":
		return Result{Text: c.T("The daemon goes on.")}, nil
	case word != "now":
		return Result{Text: c.T("I know `/restart` and `/restart now`.")}, nil
	case asked != "" && !stillValid(asked):
		return Result{Text: c.T("That question is too old. Say `/restart` again.")}, nil
	}
	return Result{Text: c.T("Restarting."), Restart: true}, nil
}

// stillValid reports whether a question asked at that time, in base 36 Unix seconds, is
// still valid.
func stillValid(asked string) bool {
	at, err := strconv.ParseInt(asked, 36, 64)
	return err == nil && time.Since(time.Unix(at, 0)).Abs() < confirmTimeout
}
