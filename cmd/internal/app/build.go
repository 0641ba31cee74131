package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/agent/tools/files"
	"hermesd/agent/tools/todo"
	"hermesd/cmd/internal/config/profile"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/approval"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/compaction"
	"hermesd/gateway/control"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/media"
	"hermesd/gateway/outbox"
	"hermesd/gateway/overlay"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/target"
	"hermesd/gateway/turn"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

// build builds all parts of the daemon, each from those before it.
func (a *App) build(ctx context.Context) (err error) {
	if err := a.open(ctx); err != nil {
		return err
	}
	c := a.opts.Config
	a.outgoing = pipeline.NewOutgoing(pipeline.OutgoingParts{
		Store: a.store, Accounts: accounts.New(accounts.Options{ReplyToMode: replyModes(c), Profiles: platforms.Profiles(), Log: a.opts.Log}),
		Moves: a.migrations, Access: &a.access, Skill: a.prompts.expandSkill,
		Scripts: scripts{filepath.Join(a.opts.Home, "scripts"), a.prompts.workspace, c.Terminal.EnvPassthrough, a.opts.Report.Secrets.Mask},
		Outputs: outputs{dir: filepath.Join(a.opts.Home, "cron", "output"), mask: a.opts.Report.Secrets.Mask},
	}, a.outgoingOptions())
	a.outgoing.Targets.SetConfigured(homeChannels(c))
	tools, err := a.buildTools()
	if err != nil {
		return err
	}
	a.agent = agent.New(c.Agent.Config, a.mainProvider(), tools, agent.OnPanic(logToolPanic(a.opts.Log)), agent.MaskSecrets(a.opts.masker().Mask))
	a.eraser = a.newEraser()
	a.buildAdapters()
	a.prefixes = &prefixes{promptInputs: a.prompts, opts: a.opts, models: a.models, tools: a.withoutTerminal(tools.Tools())}
	compacting := a.compactionOptions()
	a.prefixes.reportToolset()
	a.overlay = overlay.New(overlay.Options{
		Location: c.Location(), Profiles: platforms.Profiles(), RedactPII: c.Privacy.RedactPII, Voice: c.TTS.Address() != "", Note: a.prompts.memoryNudge,
	}, a.overlaySettings(c))
	a.pipeline = pipeline.New(pipeline.Parts{
		Store: a.store, People: gateway.People{Access: &a.access, Pairing: a.pairing}, Settings: a.pipelineSettings(compacting),
		Host: &host{prompts: a.prompts, commands: a.commands, canRestart: a.opts.CanRestart, restart: a.restart},
		Chat: pipeline.Chat{Outgoing: a.outgoing, Files: pipeline.Files{Fetch: a.fetcher().Fetch, Attach: a.attachments.attach, Media: a.mediaServices()}},
		Agent: pipeline.Agent{
			Agent: a.agent, Models: a.models, Prefix: a.prefixes.build, Overlay: a.overlay, CheckTool: a.prompts.toolDenied,
			Discover: a.prompts.newDiscovery, Compaction: compacting, Memory: turn.Memory{External: a.memory, Entries: a.prompts.memoryEntries, Notices: a.memoryNotices.take},
		},
		Work: pipeline.Work{
			Active: &a.active, Usage: a.usage, Pause: control.NewPause(a.store, a.profile(), a.onlyPlatform),
			Skill: a.prompts.expandSkill, Allowed: c.AllowedCommands,
		},
	})
	a.telemetry.Watch(a.metricSources())
	return nil
}

// open opens the home directory and reads what later parts are built from.
func (a *App) open(ctx context.Context) (err error) {
	if a.home, err = storage.Open(a.opts.Home); err != nil {
		return err
	}
	a.cleanups = append(a.cleanups, a.home.Close)
	a.removeStaleFiles()
	if err := a.openStore(ctx); err != nil {
		return err
	}
	a.startTracing()
	if err := a.openPairing(ctx); err != nil {
		return err
	}
	if a.migrations, err = chatmigration.Open(ctx, a.store); err != nil {
		return err
	}
	check, err := a.checker(a.opts.Config)
	if err != nil {
		return err
	}
	a.access.checker.Store(check)
	a.openContextLengths(ctx)
	a.models = newModels(a.opts.Config, a.opts.Report, providers{a.opts.Config, a.telemetry.Metrics}.of, a.lengths)
	if a.printer, err = i18n.For(a.opts.Config.Display.Language); err != nil {
		return keyError("display.language", err)
	}
	a.openMemory()
	if err := a.loadPromptInputs(); err != nil {
		return err
	}
	if err := a.openSandbox(ctx); err != nil {
		return err
	}
	a.cache, err = media.Open(MediaDir(a.home), media.Config{MaxBytes: maxFileBytes, CacheBytes: maxCacheBytes})
	a.attachments = attachments{a.prompts.workspace, a.cache}
	return err
}

// openStore opens the store.
func (a *App) openStore(ctx context.Context) (err error) {
	log, count, end := a.opts.Log, a.telemetry.Metrics, a.storeFailed
	damaged := func(err error) {
		count.Damaged()
		log.Error("damaged record was set aside", zap.Error(err))
	}
	failed := func(err error) { // at most once per store
		log.Error("cannot use store any more; restarting", zap.Error(err))
		close(end)
	}
	a.store, err = bolt.Open(ctx, a.home.Path("hermesd.db"), bolt.Options{OnDamage: damaged, OnNoSpace: a.givesWay.giveWay, OnUnknown: failed, OnCommit: a.telemetry.Committed})
	if err != nil {
		return err
	}
	a.cleanups = append(a.cleanups, a.store.Close)
	return nil
}

// Limits of incoming files: of one file, and of the media cache.
const (
	maxFileBytes  = 50 << 20
	maxCacheBytes = 2 << 30
)

// buildTools opens the workspace and returns the tools of the agent.
func (a *App) buildTools() (tool.Set, error) {
	c, home := a.opts.Config, a.opts.Home
	dir := c.Workspace(home)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tool.Set{}, fmt.Errorf("create workspace: %w", err)
	}
	w, err := files.Open(dir)
	if err != nil {
		return tool.Set{}, err
	}
	a.cleanups = append(a.cleanups, w.Close)
	ts := slices.Concat(w.Tools(), w.Writers(files.Options{
		Deny: func(path string) error { return checkWritable(c, home, path) }, Homes: userHomes(), Protect: func(path string) string { return instructs(c, path) },
	}), []tool.Tool{todo.New()})
	ts = append(ts, a.openIndex()...)
	if err := a.openEngines(); err != nil {
		return tool.Set{}, err
	}
	actions, err := a.actionTools()
	if err != nil {
		return tool.Set{}, err
	}
	ts = slices.Concat(ts, actions, a.recallTools(), a.memoryTools())
	ts = append(ts, a.prompts.tools()...)
	return tool.NewSet(tool.Without(ts, a.opts.Config.Agent.DisabledToolsets)...)
}

// profile returns the name of the profile that the home directory belongs to, which is
// part of session keys.
func (a *App) profile() string { return profile.FromHome(a.opts.Home) }

// pipelineSettings returns the settings of the parts of the pipeline.
func (a *App) pipelineSettings(compacting compaction.Options) pipeline.Settings {
	c, main, log := a.opts.Config, a.opts.Report.Model, a.opts.Log
	return pipeline.Settings{
		Admission: gateway.Settings{
			Profile: a.profile(), Policy: c.SessionPolicy(), Mode: inbox.Mode(c.Display.BusyInputMode), Acknowledge: c.Display.BusyAck,
			MaxQueuedMessages: c.Gateway.MaxQueuedMessages, Printer: a.printer, Mask: a.agent.Mask, Observe: a.telemetry.Observe, Log: log,
		},
		Conversation: conversation.Options{
			Policy: c.SessionPolicy(), Reset: resetPolicyFor(c), CacheBytes: c.Gateway.TranscriptCacheBytes, Printer: a.printer, Log: log.Named("conversation"),
		},
		Turn: turn.Settings{
			Printer: a.printer, Placement: prompt.Placement(c.Agent.OverlayPlacement), Prefill: a.prefill.messages, Title: a.titleGenerator(),
			RestartNotice: c.Gateway.RestartNotice, EditFirst: c.Delivery.EditFirst,
			Freshness: c.Gateway.AutoContinueFreshness, Backlog: c.Backlog.MaxAge, Inactivity: c.Gateway.TurnTimeout,
			Log: log.Named("turn"), Observe: a.telemetry.Observe, OnSessionChanged: a.indexFollower.Changed, OnSessionDeleted: deleteDerived(a.eraser, log),
			OnReload: func(ctx context.Context) string { return a.Reload(ctx).Problem },
		},
		Approval: approval.Options{
			Mode: c.Approvals.Mode, Timeout: c.Approvals.Timeout, Level: access.ToolLevel, Review: a.approvalReviewer(), Printer: a.printer, Log: log.Named("approval"),
		},
		Control: control.Options{
			Version: a.opts.Version, Model: main.Model, Mode: inbox.Mode(c.Display.BusyInputMode), Progress: c.Display.ToolProgress, Voice: c.TTS.Address() != "",
			Prices: a.models.prices, Caching: llm.CachingLine(main.Provider, main.Model, main.BaseURL, c.PromptCaching.TTL()),
			Compression: compacting, Printer: a.printer, Log: log,
		},
		DrainTimeout: c.Gateway.DrainTimeout, Log: log,
	}
}

// outgoingOptions returns how messages are sent and scheduled prompts run.
func (a *App) outgoingOptions() pipeline.OutgoingOptions {
	c := a.opts.Config
	return pipeline.OutgoingOptions{
		MaxTurns: c.Gateway.MaxConcurrentTurns, Targets: target.Options{Location: c.Location(), Log: a.opts.Log}, Cron: a.cronOptions(),
		Delivery: delivery.Options{
			Uncertain: outbox.UncertainPolicy(c.Delivery.Uncertain), RepeatNotice: a.printer.Translate(outbox.RepeatNotice),
			Preview: c.Streaming.Enabled, EditInterval: c.Streaming.EditInterval, Ceilings: c.Ceilings(),
			Observe: a.telemetry.Observe, Masker: a.opts.masker(), Log: a.opts.Log.Named("delivery"),
		},
	}
}
