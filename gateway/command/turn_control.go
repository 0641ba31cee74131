package command

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"hermesd/gateway/access"
)

// A Decision is what a person answers to a question of a running turn.
type Decision struct {
	Allow     bool
	Scope     string // of leave: "" once, "session" or "always"
	Choice    int    // of a question with choices, from 0 on; -1: none
	Text      string // of a question
	Principal access.Principal
}

// usage returns a Do that says how a command is used. What follows the name makes
// it something else before it comes to the table: a message.
func usage(text string) func(context.Context, Env, Call) (Result, error) {
	return func(_ context.Context, _ Env, c Call) (Result, error) { return Result{Text: c.Translate(text)}, nil }
}

// busy shows or sets what a message does that comes while a turn runs.
func busy(_ context.Context, env Env, c Call) (Result, error) {
	mode := strings.ToLower(c.Args)
	set := c.Session.Settings
	switch mode {
	case "":
		now := set.BusyMode
		if now == "" {
			now = c.T("%s (as configured)", env.BusyMode())
		}
		return Result{Text: c.T("While a turn runs, a new message does: %s. `/busy interrupt` stops the turn, `/busy queue` waits for it, `/busy steer` tells it after its next tool; `/busy default` is as configured.", now)}, nil
	case "interrupt", "queue", "steer":
		set.BusyMode = mode
	case "default":
		set.BusyMode, mode = "", env.BusyMode()
	default:
		return Result{Text: c.T("I know the modes `interrupt`, `queue` and `steer`, and `default`.")}, nil
	}
	return Result{Text: c.T("From now on a message that comes while a turn runs does: %s.", mode), Settings: &set}, nil
}

// approve allows what a turn asks for.
func approve(_ context.Context, env Env, c Call) (Result, error) {
	d := Decision{Allow: true, Principal: c.Principal}
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
	return decide(env, c, id, true, d)
}

func decide(env Env, c Call, id string, leave bool, d Decision) (Result, error) {
	text, then := env.Decide(c, id, leave, d)
	return Result{Text: text, AfterCommit: then}, nil
}

// deny refuses it.
func deny(_ context.Context, env Env, c Call) (Result, error) {
	return decide(env, c, strings.ToLower(c.Args), true, Decision{Principal: c.Principal})
}

// answer answers a question with choices: by the number of one, or in words.
func answer(_ context.Context, env Env, c Call) (Result, error) {
	id, said, _ := strings.Cut(c.Args, " ")
	if said == "" {
		return Result{Text: c.T("Say `/answer <question> <number or text>`, or simply write your answer.")}, nil
	}
	d := Decision{Choice: -1, Text: said, Principal: c.Principal}
	if n, err := strconv.Atoi(said); err == nil && n >= 1 {
		d.Choice = n - 1
	}
	return decide(env, c, strings.ToLower(id), false, d)
}

// pause stops new work everywhere, and starts it again.
func pause(ctx context.Context, env Env, c Call) (Result, error) {
	if strings.EqualFold(c.Args, "off") {
		return Result{Text: env.Pause(ctx, c, false)}, nil
	}
	return Result{Text: env.Pause(ctx, c, true)}, nil
}

// setHome makes the chat the one where the daemon speaks unasked on its platform.
func setHome(ctx context.Context, env Env, c Call) (Result, error) {
	if err := env.SetHome(ctx, c.Inbound.Address); err != nil {
		return Result{Text: c.T("That cannot be: %v.", err)}, nil
	}
	return Result{Text: c.T("This chat (%s) is now the home channel of %s: what goes to `%s` comes here.", quote(c.Inbound.Address.String()), c.Inbound.Address.Platform, c.Inbound.Address.Platform)}, nil
}

// steps are the forms in which tool calls are shown.
func steps() []string { return []string{"off", "new", "all", "verbose"} }

// verbose shows or sets how tool calls are shown in this conversation.
func verbose(_ context.Context, env Env, c Call) (Result, error) {
	set := c.Session.Settings
	now := set.ToolProgress
	if now == "" {
		now = env.Progress()
	}
	next := strings.ToLower(c.Args)
	if next == "" {
		next = steps()[(slices.Index(steps(), now)+1)%len(steps())]
	}
	if !slices.Contains(steps(), next) {
		return Result{Text: c.T("Tool calls can be shown: %s.", strings.Join(steps(), ", "))}, nil
	}
	set.ToolProgress = next
	return Result{Text: c.T("Tool calls are now shown: %s (it was %s).", next, now), Settings: &set}, nil
}

// voice shows or sets whether answers are spoken too.
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
