package gateway

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

// chooseModel returns the model for the settings of a session.
func (g *Gateway) chooseModel(s session.Settings) (turn.ModelChoice, error) {
	if g.opts.Models == nil {
		return turn.ModelChoice{Model: g.opts.Model, Effort: g.opts.Effort, CacheTTL: g.opts.CacheTTL, Vision: g.opts.Vision, Window: g.opts.Window}, nil
	}
	return g.opts.Models.Choose(s)
}

func (e env) Personalities() []string {
	return e.g.opts.Overlay.Personalities()
}

func (e env) Models() []string {
	if e.g.opts.Models == nil {
		return []string{e.g.opts.Model}
	}
	return e.g.opts.Models.Names()
}

func (e env) Model(r session.Record) string {
	if e.g.opts.Models == nil {
		return e.g.opts.Model
	}
	return e.g.opts.Models.Name(r.Settings)
}

func (e env) Resolve(name string) (string, string, error) {
	if e.g.opts.Models == nil {
		return "", "", i18n.Errorf("there is only %s", e.g.opts.Model)
	}
	return e.g.opts.Models.Resolve(name)
}

func (e env) SwitchCost(_ context.Context, from, to session.Record) string {
	if from.PromptTokens == 0 || e.g.opts.Models == nil {
		return ""
	}
	price := e.g.opts.Models.Price(to.Settings, from.PromptTokens)
	if price != "" {
		return e.g.opts.Printer.T("It reads the whole conversation of about %d tokens anew, once, which costs about %s.", from.PromptTokens, price)
	}
	return e.g.opts.Printer.T("It reads the whole conversation of about %d tokens anew, once.", from.PromptTokens)
}
