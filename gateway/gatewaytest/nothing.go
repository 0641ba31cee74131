package gatewaytest

import (
	"context"
	"errors"

	"hermesd/agent/memory"
	"hermesd/agent/skills"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/control"
	"hermesd/gateway/conversation"
	"hermesd/gateway/cron"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// NoNote is the overlay.Note that is always empty.
func NoNote(session.Record) string { return "" }

// NoPairing is a gateway.Pairing that offers no codes.
type NoPairing struct{}

// Offer returns nil, and the rule of users without a code.
func (NoPairing) Offer(pairing.Person) (*pairing.Offer, string) { return nil, access.RuleUnknownDM }

// NoHost is a control.Host without a home directory, which runs no commands and cannot
// restart.
type NoHost struct{}

var _ control.Host = NoHost{}

// Memories returns none.
func (NoHost) Memories(session.Record) (*memory.Store, []memory.Target) { return nil, nil }

// Skills returns none.
func (NoHost) Skills() (*skills.Catalog, []string) { return nil, nil }

// Background returns 0 and a function that does nothing.
func (NoHost) Background(session.ID) (int, func()) { return 0, func() {} }

// CanRestart returns false.
func (NoHost) CanRestart() bool { return false }

// Restart does nothing.
func (NoHost) Restart() {}

// NoScripts is the cron.Scripts that runs none.
type NoScripts struct{}

// Run returns cron.ErrNoScripts.
func (NoScripts) Run(context.Context, schedule.Job) (string, error) { return "", cron.ErrNoScripts }

// NoOutputs is the cron.Outputs that stores nothing.
type NoOutputs struct{}

// Save does nothing.
func (NoOutputs) Save(schedule.OccurrenceID, string) error { return nil }

// Newest returns an error.
func (NoOutputs) Newest(schedule.JobID) (string, error) {
	return "", errors.New("answers of runs are not stored")
}

// OneModel are control.Models of which there is only one.
type OneModel conversation.ModelChoice

var _ control.Models = OneModel{}

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
