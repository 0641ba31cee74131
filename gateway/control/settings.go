package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"hermesd/gateway/command"
)

// personality shows or sets the personality, a text in the overlay of each call, after
// everything that the provider caches.
func (ctl *Control) personality(_ context.Context, c command.Call) (command.Result, error) {
	name := strings.ToLower(c.Args)
	known := ctl.parts.Overlay.Personalities()
	set := c.Session.Settings
	switch {
	case name == "":
		now := set.Personality
		if now == "" {
			now = c.T("none")
		}
		return command.Result{Text: c.T("This conversation's personality is %s. I know: %s; `none` takes it away.", now, strings.Join(known, ", "))}, nil
	case name == "none" || name == "default" || name == "neutral":
		set.Personality = ""
		return command.Result{Text: c.T("No personality: the answers are as they were."), Settings: &set}, nil
	case !slices.Contains(known, name):
		return command.Result{Text: c.T("I know no personality called %s. There is: %s. More stand under `agent.personalities`.", command.Quote(c.Args), strings.Join(known, ", "))}, nil
	}
	set.Personality = name
	return command.Result{Text: c.T("This conversation's personality is now %s. It costs its own words with each call, and nothing of the provider's cache.", name), Settings: &set}, nil
}

// busyMode shows or sets what a message does that arrives while a turn runs.
func (ctl *Control) busyMode(_ context.Context, c command.Call) (command.Result, error) {
	mode := strings.ToLower(c.Args)
	set, configured := c.Session.Settings, cmp.Or(string(ctl.parts.Options.Mode), "interrupt")
	switch mode {
	case "":
		now := set.BusyMode
		if now == "" {
			now = c.T("%s (as configured)", configured)
		}
		return command.Result{Text: c.T("While a turn runs, new messages: %s. `/busy interrupt` stops the turn, `/busy queue` waits for it, `/busy steer` tells it after its next tool; `/busy default` is as configured.", now)}, nil
	case "interrupt", "queue", "steer":
		set.BusyMode = mode
	case "default":
		set.BusyMode, mode = "", configured
	default:
		return command.Result{Text: c.T("I know the modes `interrupt`, `queue` and `steer`, and `default`.")}, nil
	}
	return command.Result{Text: c.T("From now on, new messages while a turn runs: %s.", mode), Settings: &set}, nil
}

// progressModes returns the displays of tool calls, in the order in which /verbose cycles.
func progressModes() []string { return []string{"off", "new", "all", "verbose"} }

// verbose shows or sets the display of tool calls of the session; without an argument
// it selects the next one.
func (ctl *Control) verbose(_ context.Context, c command.Call) (command.Result, error) {
	set := c.Session.Settings
	now := cmp.Or(set.ToolProgress, ctl.parts.Options.Progress, "off")
	next := strings.ToLower(c.Args)
	if next == "" {
		next = progressModes()[(slices.Index(progressModes(), now)+1)%len(progressModes())]
	}
	if !slices.Contains(progressModes(), next) {
		return command.Result{Text: c.T("Tool calls can be shown: %s.", strings.Join(progressModes(), ", "))}, nil
	}
	set.ToolProgress = next
	return command.Result{Text: c.T("Tool calls are now shown: %s (it was %s).", next, now), Settings: &set}, nil
}

// voice shows or sets whether answers are also spoken.
func (ctl *Control) voice(_ context.Context, c command.Call) (command.Result, error) {
	set := c.Session.Settings
	switch strings.ToLower(c.Args) {
	case "on":
		if !ctl.parts.Options.Voice {
			return command.Result{Text: c.T("I cannot speak: %s.", c.T("no service for speech is connected"))}, nil
		}
		set.Voice = true
	case "off":
		set.Voice = false
	case "":
		if set.Voice {
			return command.Result{Text: c.T("Spoken answers are on. `/voice on` and `/voice off` change that for this conversation.")}, nil
		}
		return command.Result{Text: c.T("Spoken answers are off. `/voice on` and `/voice off` change that for this conversation.")}, nil
	default:
		return command.Result{Text: c.T("I know `/voice on` and `/voice off`.")}, nil
	}
	if set.Voice {
		return command.Result{Text: c.T("I speak my answers too."), Settings: &set}, nil
	}
	return command.Result{Text: c.T("I answer in writing only."), Settings: &set}, nil
}
