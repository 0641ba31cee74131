package command

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"hermesd/gateway/access"
)

// A Decision is the answer of a user to a question or approval request of a running
// turn.
type Decision struct {
	Approval  bool // it answers an approval request
	Allow     bool
	Scope     string // of an approval: "" once, "session" or "always"
	Choice    int    // index of the chosen option of a question; -1: none
	Text      string // answer to a question
	Principal access.Principal
}

// replyUsage returns a Command.Run that replies with a usage text. With arguments these
// commands become messages before they reach the table.
func replyUsage(text string) func(context.Context, Env, Call) (Result, error) {
	return func(_ context.Context, _ Env, c Call) (Result, error) { return Result{Text: c.Translate(text)}, nil }
}

// busy shows or sets what a message does that arrives while a turn runs.
func busy(_ context.Context, env Env, c Call) (Result, error) {
	mode := strings.ToLower(c.Args)
	set := c.Session.Settings
	switch mode {
	case "":
		now := set.BusyMode
		if now == "" {
			now = c.T("%s (as configured)", env.BusyMode())
		}
		return Result{Text: c.T("While a turn runs, new messages: %s. `/busy interrupt` stops the turn, `/busy queue` waits for it, `/busy steer` tells it after its next tool; `/busy default` is as configured.", now)}, nil
	case "interrupt", "queue", "steer":
		set.BusyMode = mode
	case "default":
		set.BusyMode, mode = "", env.BusyMode()
	default:
		return Result{Text: c.T("I know the modes `interrupt`, `queue` and `steer`, and `default`.")}, nil
	}
	return Result{Text: c.T("From now on, new messages while a turn runs: %s.", mode), Settings: &set}, nil
}

// approve approves a pending request of a turn.
func approve(ctx context.Context, env Env, c Call) (Result, error) {
	d := Decision{Approval: true, Allow: true, Principal: c.Principal}
	id := ""
	for _, word := range strings.Fields(strings.ToLower(c.Args)) {
		switch word {
		case "session", "always":
			d.Scope = word
		case "once":
		default:
			id = word
		}
	}
	return decide(ctx, env, c, id, d)
}

func decide(ctx context.Context, env Env, c Call, id string, d Decision) (Result, error) {
	text, apply := env.Decide(ctx, c, id, d)
	return Result{Text: text, AfterCommit: apply}, nil
}

// deny denies a pending request of a turn.
func deny(ctx context.Context, env Env, c Call) (Result, error) {
	return decide(ctx, env, c, strings.ToLower(c.Args), Decision{Approval: true, Principal: c.Principal})
}

// answer answers a question with the number of a choice or with text.
func answer(ctx context.Context, env Env, c Call) (Result, error) {
	id, text, _ := strings.Cut(c.Args, " ")
	if text == "" {
		return Result{Text: c.T("Say `/answer <question> <number or text>`, or simply write your answer.")}, nil
	}
	d := Decision{Choice: -1, Text: text, Principal: c.Principal}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 {
		d.Choice = n - 1
	}
	return decide(ctx, env, c, strings.ToLower(id), d)
}

// pause pauses the daemon, or resumes it with "off".
func pause(ctx context.Context, env Env, c Call) (Result, error) {
	switch strings.ToLower(c.Args) {
	case "":
		return Result{Text: env.Pause(ctx, c, true)}, nil
	case "off":
		return Result{Text: env.Pause(ctx, c, false)}, nil
	}
	return Result{Text: c.T("I know `/pause` and `/pause off`.")}, nil
}

// setHome makes the chat the home channel of its platform.
func setHome(ctx context.Context, env Env, c Call) (Result, error) {
	if err := env.SetHome(ctx, c.Inbound.Address); err != nil {
		return Result{Text: c.T("That cannot be: %v.", err)}, nil
	}
	return Result{Text: c.T("This chat (%s) is now the home channel of %s: what goes to `%s` comes here.", quote(c.Inbound.Address.String()), c.Inbound.Address.Platform, c.Inbound.Address.Platform)}, nil
}

// progressModes returns the displays of tool calls, in the order in which /verbose cycles.
func progressModes() []string { return []string{"off", "new", "all", "verbose"} }

// verbose shows or sets the display of tool calls of the session; without an argument
// it selects the next one.
func verbose(_ context.Context, env Env, c Call) (Result, error) {
	set := c.Session.Settings
	now := set.ToolProgress
	if now == "" {
		now = env.Progress()
	}
	next := strings.ToLower(c.Args)
	if next == "" {
		next = progressModes()[(slices.Index(progressModes(), now)+1)%len(progressModes())]
	}
	if !slices.Contains(progressModes(), next) {
		return Result{Text: c.T("Tool calls can be shown: %s.", strings.Join(progressModes(), ", "))}, nil
	}
	set.ToolProgress = next
	return Result{Text: c.T("Tool calls are now shown: %s (it was %s).", next, now), Settings: &set}, nil
}

// voice shows or sets whether answers are also spoken.
func voice(_ context.Context, env Env, c Call) (Result, error) {
	set := c.Session.Settings
	switch strings.ToLower(c.Args) {
	case "on":
		if why := env.NoVoice(); why != "" {
			return Result{Text: c.T("I cannot speak: %s.", c.Translate(why))}, nil
		}
		set.Voice = true
	case "off":
		set.Voice = false
	case "":
		if set.Voice {
			return Result{Text: c.T("Spoken answers are on. `/voice on` and `/voice off` change that for this conversation.")}, nil
		}
		return Result{Text: c.T("Spoken answers are off. `/voice on` and `/voice off` change that for this conversation.")}, nil
	default:
		return Result{Text: c.T("I know `/voice on` and `/voice off`.")}, nil
	}
	if set.Voice {
		return Result{Text: c.T("I speak my answers too."), Settings: &set}, nil
	}
	return Result{Text: c.T("I answer in writing only."), Settings: &set}, nil
}
