package app

import (
	"slices"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	memorytool "hermesd/agent/tools/memory"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
)

// prefix returns a function that builds the cached prompt of a session and notes
// about it for the user.
func (a *App) prefix(tools tool.Set) func(session.Record) (prompt.Prefix, []string) {
	c := a.opts.Config
	offered := a.withoutTerminal(tools.Tools())
	a.prompts.daemonTools, a.prompts.jobs = offered, a.store.Job
	return func(r session.Record) (prompt.Prefix, []string) {
		model, err := a.models.endpointFor(r.Settings)
		if err != nil {
			model = a.opts.Report.Model
		}
		in := prompt.Inputs{
			Name: c.Agent.Name, SystemMessage: c.Agent.SystemMessage, Started: r.Created.In(c.Location()),
			Session: string(r.ID), Model: model.Model, Provider: model.Provider, Platform: string(r.Address.Platform), Shared: r.Shared,
			Enforce: a.enforcement, Tools: tool.Select(slices.Clone(offered), a.toolsets(r.Address)),
		}
		if !a.prompts.mayUseMemories(r) { // the prompt says nothing of what the conversation does not have
			in.Tools = slices.DeleteFunc(in.Tools, func(t llm.Tool) bool { return t.Name == memorytool.Name })
		}
		notes := a.prompts.addInputs(&in, r)
		return a.maskPrefix(prompt.Build(in)), notes
	}
}

// maskPrefix returns p with secrets masked, as the messages that follow it.
func (a *App) maskPrefix(p prompt.Prefix) prompt.Prefix {
	for _, l := range p.Layers() {
		if masked := a.masker().Mask(l.Text); masked != l.Text {
			p = p.With(l.Name, masked)
		}
	}
	return p
}

// loadPromptInputs loads the inputs of the system prompt and the other texts that
// the operator configures.
func (a *App) loadPromptInputs() (err error) {
	c := a.opts.Config
	if a.prompts, err = newPromptInputs(c, a.opts.Home, a.opts.Log.Named("prompt")); err != nil {
		return err
	}
	if a.enforcement, err = prompt.ParseEnforcement(c.Agent.ToolUseEnforcement...); err != nil {
		return keyError("agent.tool_use_enforcement", err)
	}
	a.prefill, err = a.readPrefill(c)
	return err
}

// A prefill is the content of the file of prefill messages.
type prefill struct {
	system   string // goes with the texts of every call
	messages []llm.Message
}

// readPrefill returns the content of the prefill file that c names; nothing if it names
// none.
func (a *App) readPrefill(c *config.Config) (p prefill, err error) {
	if file := c.Agent.PrefillMessagesFile; file != "" {
		if p.system, p.messages, err = prompt.LoadPrefill(config.InHome(a.opts.Home, file)); err != nil {
			return prefill{}, keyError(prefillKey, err)
		}
	}
	return p, nil
}

// ephemeral returns the operator's text that goes with every call and is never stored:
// that of c, after what the prefill file has of role system.
func (a *App) ephemeral(c *config.Config) string {
	if a.prefill.system == "" || c.Agent.EphemeralSystemPrompt == "" {
		return a.prefill.system + c.Agent.EphemeralSystemPrompt
	}
	return a.prefill.system + "\n\n" + c.Agent.EphemeralSystemPrompt
}

// keyError returns a configuration error for key. Restarting without a change cannot
// repair it.
func keyError(key string, err error) error {
	return &config.Error{Problems: []config.Problem{{Key: key, Text: err.Error()}}}
}
