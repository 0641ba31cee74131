package control

import (
	"context"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/conversation"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// Models is the set of models that a session may use. Its methods may be called from
// any goroutine.
type Models interface {
	// Choose returns the model of the settings. Its error is shown to the user and says
	// why the model is unavailable.
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

// OneModel are Models of which there is only one.
type OneModel conversation.ModelChoice

var _ Models = OneModel{}

// Choose returns the model.
func (m OneModel) Choose(session.Settings) (conversation.ModelChoice, error) {
	return conversation.ModelChoice(m), nil
}

// Names returns its name.
func (m OneModel) Names() []string { return []string{m.Model} }

// Name returns its name.
func (m OneModel) Name(session.Settings) string { return m.Model }

// Resolve returns an error.
func (m OneModel) Resolve(string) (provider, model string, err error) {
	return "", "", i18n.Errorf("there is only %s", m.Model)
}

// Price returns "": the price is not known.
func (OneModel) Price(session.Settings, int) string { return "" }

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
