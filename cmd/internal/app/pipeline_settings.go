package app

import (
	"cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/prompt"
	"hermesd/cmd/internal/config/profile"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/compaction"
	"hermesd/gateway/control"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/outbox"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/reply"
	"hermesd/gateway/turn"
)

// profile returns the name of the profile that the home directory belongs to, which is
// part of session keys.
func (a *App) profile() string { return profile.FromHome(a.opts.Home) }

// pipelineSettings returns the settings of the parts of the pipeline.
func (a *App) pipelineSettings(compacting compaction.Options, services input.Media) pipeline.Settings {
	c, log := a.opts.Config, a.opts.Log
	return pipeline.Settings{
		Admission: gateway.Settings{
			Profile: a.profile(), Policy: c.SessionPolicy(), Mode: inbox.Mode(c.Display.BusyInputMode), Acknowledge: c.Display.BusyAck,
			MaxQueuedMessages: c.Gateway.MaxQueuedMessages, Printer: a.printer, Mask: a.agent.Mask, Observe: a.telemetry.Observe, Log: log,
		},
		Conversation: conversation.Options{
			Policy: c.SessionPolicy(), Reset: resetPolicyFor(c), CacheBytes: c.Gateway.TranscriptCacheBytes, Printer: a.printer, Log: log.Named("conversation"),
		},
		Turn: a.turnSettings(),
		Approval: approval.Options{
			Mode: c.Approvals.Mode, Timeout: c.Approvals.Timeout, Level: access.ToolLevel, Review: a.approvalReviewer(), Printer: a.printer, Log: log.Named("approval"),
		},
		Control:      a.controlOptions(compacting, services),
		DrainTimeout: c.Gateway.DrainTimeout, Log: log,
	}
}

// turnSettings returns the values that configure turns.
func (a *App) turnSettings() turn.Settings {
	c, model := a.opts.Config, a.opts.Report.Model
	return turn.Settings{
		Printer: a.printer, Placement: prompt.Placement(c.Agent.OverlayPlacement), Prefill: a.prefill.messages, Title: a.titleGenerator(),
		Model: conversation.ModelChoice{
			Model: model.Model, Effort: c.Agent.ReasoningEffort, CacheTTL: c.PromptCaching.TTL(), Vision: hasVision(model.Provider), Window: a.lengths.lengthOf(model),
		},
		RestartNotice: c.Gateway.RestartNotice, EditFirst: c.Delivery.EditFirst,
		Freshness: c.Gateway.AutoContinueFreshness, Backlog: c.Backlog.MaxAge, Inactivity: c.Gateway.TurnTimeout,
		Log: a.opts.Log.Named("turn"), Observe: a.telemetry.Observe, OnSessionChanged: a.followSession, OnSessionDeleted: a.deleteDerived,
	}
}

// deliveryOptions returns how messages are sent; questions hears of the rows that were.
func (a *App) deliveryOptions(questions *approval.Questions) delivery.Options {
	c := a.opts.Config
	return delivery.Options{
		Store: a.store, Accounts: a.accounts, Uncertain: outbox.UncertainPolicy(c.Delivery.Uncertain), RepeatNotice: a.printer.Translate(outbox.RepeatNotice),
		Preview: c.Streaming.Enabled, EditInterval: c.Streaming.EditInterval, Ceilings: c.Ceilings(), Settled: questions.Settled,
		Observe: a.telemetry.Observe, Masker: a.masker(), Log: a.opts.Log.Named("delivery"),
	}
}

// controlOptions returns what chat commands and the status say of the configuration.
func (a *App) controlOptions(compacting compaction.Options, services input.Media) control.Options {
	c, main := a.opts.Config, a.opts.Report.Model
	return control.Options{
		Version: a.opts.Version, Model: main.Model, Mode: inbox.Mode(c.Display.BusyInputMode), Progress: c.Display.ToolProgress, Voice: services.Synthesize != nil,
		Prices:  cmp.Or(a.opts.Report.Prices, pricing.Builtin()),
		Caching: llm.CachingLine(main.Provider, main.Model, main.BaseURL, c.PromptCaching.TTL()),
		Engine:  compacting.Engine, Printer: a.printer, Log: a.opts.Log,
	}
}

// newInput returns what makes the input of models.
func (a *App) newInput(services input.Media) *input.Composer {
	return input.New(input.Parts{
		Accounts: a.accounts, Usage: a.usage, Fetch: a.fetcher().Fetch, Skill: a.prompts.expandSkill, Media: services, Printer: a.printer,
		Options: input.Options{Observe: a.telemetry.Observe, Log: a.opts.Log.Named("input")},
	})
}

// newReply returns what makes the rows of turns.
func (a *App) newReply(services input.Media) *reply.Writer {
	return reply.New(reply.Parts{
		Delivery: a.delivery, Accounts: a.accounts, Directory: a.targets, Targets: a.cron.Targets, Mask: a.agent.Mask,
		Files:   reply.Files{Attach: a.attach, CheckTool: a.prompts.toolDenied, Synthesize: services.Synthesize},
		Options: reply.Options{Printer: a.printer, Progress: a.opts.Config.Display.ToolProgress, Observe: a.telemetry.Observe},
	})
}
