package app

import (
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/contextfile"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	memorytool "hermesd/agent/tools/memory"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/gateway/overlay"
	"hermesd/gateway/session"
)

// prefixes build the cached prompts of sessions.
type prefixes struct {
	*promptInputs
	opts   Options
	models *models
	tools  []llm.Tool                    // of the daemon
	chosen atomic.Pointer[admin.Toolset] // the last one that was chosen because of the window
}

// build returns the prompt of a session and notes about it for the user.
func (b *prefixes) build(r session.Record) (prompt.Prefix, []string) {
	model, err := b.models.endpointFor(r.Settings)
	if err != nil {
		model = b.opts.Report.Model
	}
	in := prompt.Inputs{
		Name: b.c.Agent.Name, SystemMessage: b.c.Agent.SystemMessage, Started: r.Created.In(b.c.Location()),
		Session: string(r.ID), Model: model.Model, Provider: model.Provider, Hint: platforms.Profiles().Of(r.Address.Platform).Hint, Shared: r.Shared,
		Enforce: b.enforcement,
	}
	window := b.models.lengths.lengthOf(model)
	notes, own := b.addFiles(&in, r, window), b.ownTurn(r)
	guidance := in.Guidance
	build := func(toolsets []string) prompt.Prefix {
		in.Tools, in.Short = tool.Select(slices.Clone(b.tools), toolsets), slices.Contains(toolsets, tool.Small)
		if !b.mayUseMemories(r) { // the prompt says nothing of what the conversation does not have
			in.Tools = slices.DeleteFunc(in.Tools, func(t llm.Tool) bool { return t.Name == memorytool.Name })
		}
		in.Tools = slices.DeleteFunc(in.Tools, func(t llm.Tool) bool {
			ours, err := b.providerToolDenied(own, t.Name)
			return ours && err != nil
		})
		in.Guidance = append(slices.Clone(guidance), b.memoryGuidance(in.Tools)...)
		in.Skills = b.skillIndex(in.Tools, window)
		return b.mask(prompt.Build(in))
	}
	p := build(toolsetsAt(b.c, r.Address))
	if writtenToolsets(b.c, r.Address) == nil && b.isTooLarge(p, modelName(model), window) {
		p = build([]string{tool.Small})
	}
	return p, notes
}

// refresh implements compaction.Options.Refresh.
func (b *prefixes) refresh(r session.Record, p prompt.Prefix) prompt.Prefix {
	if !b.c.Compression.RefreshMemory {
		return p
	}
	return b.mask(b.refreshMemories(r, p))
}

// MaxPromptShare is the part of the context window, in percent, that the cached prompt and
// the tools may take. In a smaller window conversations for which no toolset is written get
// tool.Small.
const MaxPromptShare = 20

// UsualPrompt is about the number of tokens of the prompt with all tools, without files.
const UsualPrompt = 6_300

// isTooLarge reports whether p takes more than its share of the window. The first time it
// says so to the operator.
func (b *prefixes) isTooLarge(p prompt.Prefix, model string, window int) bool {
	n := tokens.Request(&llm.Request{System: p.System(), Tools: p.Tools()})
	if n*100 <= window*MaxPromptShare {
		return false
	}
	now := admin.Toolset{Name: tool.Small, Model: model, Window: window, Prompt: n}
	if before := b.chosen.Swap(&now); before == nil || before.Model != model || before.Window != window {
		b.opts.Log.Warn("small toolset is used: prompt and tools take too much of the context window", zap.String("model", model), zap.Int("tokens", n), zap.Int("window", window))
		b.opts.Say("🧰 " + now.String())
	}
	return true
}

// reportToolset says whether conversations in the terminal with the main model get
// tool.Small, before the first one begins.
func (b *prefixes) reportToolset() {
	main, lengths := b.opts.Report.Model, b.models.lengths
	n, from := lengths.resolve(main, lengths.configured(main))
	if from == tokens.FromService || contextfile.Share(1000, n) == 1000 {
		return // not known yet, or large
	}
	b.build(session.Record{Created: time.Now(), Address: chat.Address{Platform: chat.Console, Kind: chat.DM}})
}

// toolset returns the toolset that was chosen because of the context window; the zero
// Toolset if none was.
func (b *prefixes) toolset() admin.Toolset {
	if t := b.chosen.Load(); t != nil {
		return *t
	}
	return admin.Toolset{}
}

// mask returns p with secrets masked, as the messages that follow it.
func (b *prefixes) mask(p prompt.Prefix) prompt.Prefix {
	for _, l := range p.Layers() {
		if masked := b.opts.masker().Mask(l.Text); masked != l.Text {
			p = p.With(l.Name, masked)
		}
	}
	return p
}

// loadPromptInputs loads the inputs of the system prompt and the other texts that
// the operator configures.
func (a *App) loadPromptInputs() (err error) {
	if a.prompts, err = a.newPromptInputs(); err != nil {
		return err
	}
	a.prefill, err = a.readPrefill(a.opts.Config)
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

// overlaySettings returns the settings of overlays that c has. The operator's text that
// goes with every call and is never stored is that of c, after what the prefill file has of
// role system.
func (a *App) overlaySettings(c *config.Config) overlay.Settings {
	text := a.prefill.system + c.Agent.EphemeralSystemPrompt
	if a.prefill.system != "" && c.Agent.EphemeralSystemPrompt != "" {
		text = a.prefill.system + "\n\n" + c.Agent.EphemeralSystemPrompt
	}
	return overlay.Settings{Ephemeral: text, Personality: personalities(c)}
}

// keyError returns a configuration error for key. Restarting without a change cannot
// repair it.
func keyError(key string, err error) error {
	return &config.Error{Problems: []config.Problem{{Key: key, Text: err.Error()}}}
}
