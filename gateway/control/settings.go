package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/conversation"
	"hermesd/gateway/session"
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

// Models is the set of models that a session may use. Its methods may be called from
// any goroutine.
type Models interface {
	// Choose returns the model of the settings. If it is unavailable, that is the
	// configured one, and the error, which is shown to the user, says why.
	Choose(session.Settings) (conversation.ModelChoice, error)
	// Names returns the models that users may choose, as provider/name, the configured
	// one first.
	Names() []string
	// Name returns the model of the settings as provider/name.
	Name(session.Settings) string
	// Resolve finds the model that a user names. Both results are "" for the configured
	// model, which needs no setting.
	Resolve(name string) (provider, model string, err error)
	// Price returns the approximate cost of reading so many tokens without a cache, for
	// the model of the settings; "" if it is not known.
	Price(s session.Settings, tokens int) string
}

// maxModelButtons is the maximum number of models shown as buttons.
const maxModelButtons = 8

// model shows or changes the model of the session.
func (ctl *Control) model(_ context.Context, c command.Call) (command.Result, error) {
	models := ctl.parts.Models
	if c.Args == "" {
		var b strings.Builder
		b.WriteString(c.T("In this conversation %s answers.", command.Quote(models.Name(c.Session.Settings))) + "\n\n")
		var rows [][]chat.Button
		for _, m := range models.Names() {
			b.WriteString("- " + command.Quote(m) + "\n")
			if data := "/model " + m; len(data) <= 64 && len(rows) < maxModelButtons {
				rows = append(rows, []chat.Button{{Label: m, Data: data}})
			}
		}
		b.WriteString("\n" + c.T("`/model <name>` changes it for this conversation, `/model default` takes the change back. What that costs is said."))
		return command.Result{Text: b.String(), Buttons: rows}, nil
	}
	set := c.Session.Settings
	name := c.Args
	if strings.EqualFold(name, "default") {
		name = ""
	}
	provider, chosen, err := models.Resolve(name)
	if err != nil {
		return command.Result{Text: c.T("That cannot be: %v.", err)}, nil
	}
	if provider == set.Provider && chosen == set.Model {
		return command.Result{Text: c.T("%s answers here already.", command.Quote(models.Name(c.Session.Settings)))}, nil
	}
	set.Provider, set.Model = provider, chosen
	text := c.T("From the next message on %s answers here.", command.Quote(models.Name(set)))
	if cost := ctl.switchCost(c, set); cost != "" {
		text += " " + cost
	}
	return command.Result{Text: text, Settings: &set, Rebuild: "model_switch"}, nil
}

// switchCost returns a sentence about the cost of continuing the session of c with the
// model of settings; "" if it is not known.
func (ctl *Control) switchCost(c command.Call, settings session.Settings) string {
	n := c.Session.PromptTokens
	if n == 0 {
		return ""
	}
	if price := ctl.parts.Models.Price(settings, n); price != "" {
		return c.T("It reads the whole conversation of about %d tokens again, once, which costs about %s.", n, price)
	}
	return c.T("It reads the whole conversation of about %d tokens again, once.", n)
}
