package control

import (
	"context"

	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// Models is the set of models that a session may use. Its methods may be called from
// any goroutine.
type Models interface {
	// Choose returns the model of the settings. Its error is shown to the user and says
	// why the model is unavailable.
	Choose(session.Settings) (turn.ModelChoice, error)
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
type OneModel turn.ModelChoice

var _ Models = OneModel{}

// Choose returns the model.
func (m OneModel) Choose(session.Settings) (turn.ModelChoice, error) { return turn.ModelChoice(m), nil }

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

// Personalities implements command.Env.
func (e Env) Personalities() []string { return e.parts.Overlay.Personalities() }

// Models implements command.Env.
func (e Env) Models() []string { return e.parts.Models.Names() }

// Model implements command.Env.
func (e Env) Model(r session.Record) string { return e.parts.Models.Name(r.Settings) }

// Resolve implements command.Env.
func (e Env) Resolve(name string) (provider, model string, err error) {
	return e.parts.Models.Resolve(name)
}

// SwitchCost implements command.Env.
func (e Env) SwitchCost(_ context.Context, from, to session.Record) string {
	if from.PromptTokens == 0 {
		return ""
	}
	price := e.parts.Models.Price(to.Settings, from.PromptTokens)
	if price != "" {
		return e.parts.Options.Printer.T("It reads the whole conversation of about %d tokens anew, once, which costs about %s.", from.PromptTokens, price)
	}
	return e.parts.Options.Printer.T("It reads the whole conversation of about %d tokens anew, once.", from.PromptTokens)
}
