package app

import (
	"slices"
	"time"

	"hermesd/agent/tool"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/internal/secret"
)

// toolsets are the names of the tools that conversations at a place get; none:
// all.
func (a *App) toolsets(at chat.Address) []string { return toolsetsOn(a.opts.Config, at) }

// toolsetsOn is toolsets: what the account at a place says, or else what holds
// everywhere.
func toolsetsOn(c *config.Config, at chat.Address) []string {
	names := c.Accounts()[at.AccountID()].Toolsets
	if len(names) == 0 {
		names = c.Toolsets
	}
	if slices.ContainsFunc(names, tool.MeansAll) {
		return nil
	}
	return names
}

// resets is when conversations of a place start over by themselves: its platform
// goes before its type.
func resets(c *config.Config) func(chat.Address) session.ResetPolicy {
	return func(at chat.Address) session.ResetPolicy {
		said := c.SessionReset
		if own, ok := c.ResetByType[string(at.Kind)]; ok {
			said = own
		}
		if own, ok := c.ResetByPlatform[string(at.Platform)]; ok {
			said = own
		}
		r := session.ResetPolicy{Daily: said.Mode == "daily" || said.Mode == "both", Hour: said.AtHour, Zone: c.Location()}
		if said.Mode == "idle" || said.Mode == "both" {
			r.Idle = time.Duration(said.IdleMinutes) * time.Minute
		}
		return r
	}
}

// masker hides secrets in what people are sent, unless the operator wants
// them shown. Logs never show them.
func (a *App) masker() *secret.Masker {
	if !a.opts.Config.Security.RedactSecrets {
		return &secret.Masker{}
	}
	return a.opts.Report.Secrets
}
