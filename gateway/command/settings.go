package command

import (
	"context"
	"slices"
	"strings"

	"hermesd/gateway/chat"
)

// effortLevels returns the levels of reasoning effort, in ascending order.
func effortLevels() []string {
	return []string{"none", "minimal", "low", "medium", "high", "xhigh"}
}

// reasoning shows or sets the reasoning effort of the model.
func reasoning(_ context.Context, _ Env, c Call) (Result, error) {
	level := strings.ToLower(c.Args)
	set := c.Session.Settings
	switch {
	case level == "":
		now := set.Effort
		if now == "" {
			now = c.T("as configured")
		}
		return Result{Text: c.T("The model thinks: %s. `/reasoning <level>` sets it for this conversation: %s, or `default`.", now, strings.Join(effortLevels(), ", "))}, nil
	case level == "default":
		set.Effort = ""
	case !slices.Contains(effortLevels(), level):
		return Result{Text: c.T("I know the levels %s, and `default`.", strings.Join(effortLevels(), ", "))}, nil
	default:
		set.Effort = level
	}
	return Result{Text: c.T("From the next message on the model thinks: %s.", level), Settings: &set}, nil
}

// personality shows or sets the personality, a text in the overlay of each call, after
// everything that the provider caches.
func personality(_ context.Context, env Env, c Call) (Result, error) {
	name := strings.ToLower(c.Args)
	known := env.Personalities()
	set := c.Session.Settings
	switch {
	case name == "":
		now := set.Personality
		if now == "" {
			now = c.T("none")
		}
		return Result{Text: c.T("This conversation's personality is %s. I know: %s; `none` takes it away.", now, strings.Join(known, ", "))}, nil
	case name == "none" || name == "default" || name == "neutral":
		set.Personality = ""
		return Result{Text: c.T("No personality: the answers are as they were."), Settings: &set}, nil
	case !slices.Contains(known, name):
		return Result{Text: c.T("I know no personality called %s. There is: %s. More stand under `agent.personalities`.", quote(c.Args), strings.Join(known, ", "))}, nil
	}
	set.Personality = name
	return Result{Text: c.T("This conversation's personality is now %s. It costs its own words with each call, and nothing of the provider's cache.", name), Settings: &set}, nil
}

// maxModelButtons is the maximum number of models shown as buttons.
const maxModelButtons = 8

// model shows or changes the model of the session.
func model(ctx context.Context, env Env, c Call) (Result, error) {
	models := env.Models()
	if c.Args == "" {
		var b strings.Builder
		b.WriteString(c.T("In this conversation %s answers.", quote(env.Model(c.Session))) + "\n\n")
		var rows [][]chat.Button
		for _, m := range models {
			b.WriteString("- " + quote(m) + "\n")
			if data := "/model " + m; len(data) <= 64 && len(rows) < maxModelButtons {
				rows = append(rows, []chat.Button{{Label: m, Data: data}})
			}
		}
		b.WriteString("\n" + c.T("`/model <name>` changes it for this conversation, `/model default` takes the change back. What that costs is said."))
		return Result{Text: b.String(), Buttons: rows}, nil
	}
	set := c.Session.Settings
	name := c.Args
	if strings.EqualFold(name, "default") {
		name = ""
	}
	provider, chosen, err := env.Resolve(name)
	if err != nil {
		return Result{Text: c.T("That cannot be: %v.", err)}, nil
	}
	if provider == set.Provider && chosen == set.Model {
		return Result{Text: c.T("%s answers here already.", quote(env.Model(c.Session)))}, nil
	}
	set.Provider, set.Model = provider, chosen
	next := c.Session
	next.Settings = set
	text := c.T("From the next message on %s answers here.", quote(env.Model(next)))
	if cost := env.SwitchCost(ctx, c.Session, next); cost != "" {
		text += " " + cost
	}
	return Result{Text: text, Settings: &set, Rebuild: "model_switch"}, nil
}

// reload rebuilds the prompt of the session from the current files.
func reload(_ context.Context, _ Env, c Call) (Result, error) {
	return Result{Text: c.T("Memories, skills, context files and tools are read again."), Rebuild: "reload"}, nil
}

// compress runs a compaction of the session.
func compress(_ context.Context, _ Env, c Call) (Result, error) {
	return Result{Compress: true, Focus: c.Args}, nil
}
