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

// toolsetsAt returns the names of the toolsets for conversations at an address: the setting
// of the account or, where there are none, of the platform, else the global one; nil means
// all.
func toolsetsAt(c *config.Config, address chat.Address) []string {
	names := writtenToolsets(c, address)
	if slices.ContainsFunc(names, tool.MeansAll) {
		return nil
	}
	return names
}

// writtenToolsets returns the names as they are written in the configuration; nil if there
// are none.
func writtenToolsets(c *config.Config, address chat.Address) []string {
	own := map[chat.Platform][]string{chat.Console: c.PlatformToolsets.CLI, chat.HTTP: c.PlatformToolsets.APIServer, chat.Cron: c.PlatformToolsets.Cron}
	names, ok := own[address.Platform]
	switch {
	case !ok:
		names = c.Accounts()[address.AccountID()].Toolsets
	case slices.Equal(names, []string{"all"}): // the default
		names = nil
	}
	if len(names) == 0 {
		names = c.Toolsets
	}
	if len(names) == 0 {
		return nil
	}
	return names
}

// resetPolicyFor returns when conversations at an address are reset automatically.
// The setting of the platform takes precedence over that of the chat type.
func resetPolicyFor(c *config.Config) func(chat.Address) session.ResetPolicy {
	return func(address chat.Address) session.ResetPolicy {
		setting := c.SessionReset
		if own, ok := c.ResetByType[string(address.Kind)]; ok {
			setting = own
		}
		if own, ok := c.ResetByPlatform[string(address.Platform)]; ok {
			setting = own
		}
		r := session.ResetPolicy{Daily: setting.Mode == "daily" || setting.Mode == "both", Hour: setting.AtHour, Zone: c.Location()}
		if setting.Mode == "idle" || setting.Mode == "both" {
			r.Idle = time.Duration(setting.IdleMinutes) * time.Minute
		}
		return r
	}
}

// masker returns what masks secrets in conversations. It masks nothing if
// security.redact_secrets is off; logs, exports and the output of commands are always
// masked.
func (o Options) masker() *secret.Masker {
	if !o.Config.Security.RedactSecrets {
		return &secret.Masker{}
	}
	return o.Report.Secrets
}
