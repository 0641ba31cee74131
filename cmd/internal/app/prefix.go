package app

import (
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
)

// prefix returns what builds the frozen prompt of a session, and says what the
// person should know of it.
func (a *App) prefix(tools tool.Set) func(session.Record) (prompt.Prefix, []string) {
	c := a.opts.Config
	a.prompts.all, a.prompts.jobs = tools.Tools(), a.store.Job
	return func(r session.Record) (prompt.Prefix, []string) {
		model, err := a.models.of(r.Settings)
		if err != nil {
			model = a.opts.Report.Model
		}
		in := prompt.Inputs{
			Name: c.Agent.Name, SystemMessage: c.Agent.SystemMessage, Started: r.Created.In(c.Location()),
			Session: string(r.ID), Model: model.Model, Provider: model.Provider, Platform: string(r.Address.Platform), Shared: r.Shared,
			Enforce: a.enforce, Tools: tool.Select(tools.Tools(), a.toolsets(r.Address)),
		}
		notes := a.prompts.inputs(&in, r)
		return prompt.Build(in), notes
	}
}

// loadPromptInputs reads what shapes the answers: the mind, and the texts of the operator.
func (a *App) loadPromptInputs() (err error) {
	c := a.opts.Config
	if a.prompts, err = newPromptInputs(c, a.opts.Home, a.opts.Log.Named("mind")); err != nil {
		return err
	}
	if a.enforce, err = prompt.ParseEnforcement(c.Agent.ToolUseEnforcement...); err != nil {
		return wrongKey("agent.tool_use_enforcement", err)
	}
	a.prefill, err = a.readPrefill(c)
	return err
}

// prefillKey names the file of prefill messages.
const prefillKey = "agent.prefill_messages_file"

// readPrefill returns the prefill messages that c names.
func (a *App) readPrefill(c *config.Config) (ms []llm.Message, err error) {
	if file := c.Agent.PrefillMessagesFile; file != "" {
		if ms, err = prompt.LoadPrefill(config.InHome(a.opts.Home, file)); err != nil {
			return nil, wrongKey(prefillKey, err)
		}
	}
	return ms, nil
}

// wrongKey says that a key of the configuration must be set otherwise: a start
// again cannot help.
func wrongKey(key string, err error) error {
	return &config.Error{Problems: []config.Problem{{Key: key, Text: err.Error()}}}
}
