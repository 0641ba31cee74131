package app

import (
	"slices"
	"time"

	"hermesd/agent/llm"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
	"hermesd/internal/secret"
)

// offered are the tools that a session gets: all, or those that are named.
func offered(tools []llm.Tool, names []string) []llm.Tool {
	if len(names) == 0 {
		return tools
	}
	return slices.DeleteFunc(tools, func(t llm.Tool) bool { return !slices.Contains(names, t.Name) })
}

// reset is when conversations start over by themselves.
func reset(c *config.Config) session.Reset {
	r := session.Reset{Hour: c.SessionReset.AtHour, Zone: c.Location()}
	if c.SessionReset.Mode == "idle" || c.SessionReset.Mode == "both" {
		r.Idle = time.Duration(c.SessionReset.IdleMinutes) * time.Minute
	}
	r.Daily = c.SessionReset.Mode == "daily" || c.SessionReset.Mode == "both"
	return r
}

// masker hides secrets in what people are sent, unless the operator wants
// them shown. Logs never show them.
func (a *App) masker() *secret.Masker {
	if !a.o.Config.Security.RedactSecrets {
		return &secret.Masker{}
	}
	return a.o.Report.Secrets
}
