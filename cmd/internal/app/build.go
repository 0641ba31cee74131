package app

import (
	"context"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/tool"
	"hermesd/agent/tools/files"
	"hermesd/agent/tools/todo"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway"
	"hermesd/gateway/accounts"
	"hermesd/gateway/approval"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/control"
	"hermesd/gateway/cron"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/media"
	"hermesd/gateway/overlay"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/target"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

// build builds all parts of the daemon, each from those before it.
func (a *App) build(ctx context.Context) (err error) {
	if err := a.open(ctx); err != nil {
		return err
	}
	c := a.opts.Config
	lanes, questions := lane.New[inbox.Lane](c.Gateway.MaxConcurrentTurns), approval.NewQuestions()
	a.accounts = accounts.New(accounts.Options{ReplyToMode: replyModes(c), Profiles: platforms.Profiles(), Log: a.opts.Log})
	a.delivery = delivery.New(a.deliveryOptions(questions))
	a.targets = target.New(
		target.Parts{Store: a.store, Accounts: a.accounts, Delivery: a.delivery, Moves: a.migrations},
		target.Options{Location: c.Location(), Log: a.opts.Log},
	)
	a.targets.SetConfigured(homeChannels(c))
	a.cron = cron.New(cron.Parts{
		Store: a.store, Access: &a.access, Targets: a.targets, Lanes: lanes, Skill: a.prompts.expandSkill, Scripts: a.scripts(), Outputs: a.outputs(),
	}, a.cronOptions())
	if a.toolSet, err = a.buildTools(); err != nil {
		return err
	}
	a.agent = agent.New(c.Agent.Config, a.mainProvider(), a.toolSet, agent.OnPanic(a.logToolPanic), agent.MaskSecrets(a.masker().Mask))
	a.buildAdapters()
	compacting, err := a.compactionOptions()
	if err != nil {
		return err
	}
	a.buildPrefix = a.prefix(a.toolSet)
	a.reportToolset()
	services := a.mediaServices()
	a.overlay = overlay.New(overlay.Options{
		Location: c.Location(), Profiles: platforms.Profiles(), RedactPII: c.Privacy.RedactPII, Voice: services.Synthesize != nil, Note: a.prompts.memoryNudge,
	}, a.overlaySettings(c))
	a.pipeline = pipeline.New(pipeline.Parts{
		Store: a.store, People: gateway.People{Access: &a.access, Pairing: a.pairing}, Host: host{a}, Settings: a.pipelineSettings(compacting, services),
		Chat: pipeline.Chat{
			Accounts: a.accounts, Moves: a.migrations, Delivery: a.delivery, Targets: a.targets, Questions: questions,
			Input: a.newInput(services), Reply: a.newReply(services),
		},
		Agent: pipeline.Agent{
			Agent: a.agent, Models: a.models, Prefix: a.buildPrefix, Overlay: a.overlay, CheckTool: a.prompts.toolDenied,
			Discover: a.prompts.newDiscovery, Compaction: compacting,
		},
		Work: pipeline.Work{
			Lanes: lanes, Active: &a.active, Usage: a.usage, Pause: control.NewPause(a.store, a.profile(), a.onlyPlatform), Cron: a.cron,
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
	if a.printer, err = i18n.For(a.opts.Config.Display.Language); err != nil {
		return keyError("display.language", err)
	}
	if err := a.loadPromptInputs(); err != nil {
		return err
	}
	a.prompts.printer = a.printer
	if err := a.openSandbox(ctx); err != nil {
		return err
	}
	a.cache, err = media.Open(MediaDir(a.home), media.Config{MaxBytes: maxFileBytes, CacheBytes: maxCacheBytes})
	return err
}

// openStore opens the store.
func (a *App) openStore(ctx context.Context) (err error) {
	damaged := func(err error) {
		a.telemetry.Damaged()
		a.opts.Log.Error("damaged record was set aside", zap.Error(err))
	}
	failed := func(err error) { // at most once per store
		a.opts.Log.Error("cannot use store any more; restarting", zap.Error(err))
		close(a.storeFailed)
	}
	a.store, err = bolt.Open(ctx, a.home.Path("hermesd.db"), bolt.Options{OnDamage: damaged, OnNoSpace: a.freeSpace, OnUnknown: failed, OnCommit: a.telemetry.Committed})
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
	dir := a.opts.Config.Workspace(a.opts.Home)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tool.Set{}, fmt.Errorf("create workspace: %w", err)
	}
	w, err := files.Open(dir)
	if err != nil {
		return tool.Set{}, err
	}
	a.files = w
	a.cleanups = append(a.cleanups, w.Close)
	ts := slices.Concat(w.Tools(), w.Writers(files.Options{Deny: a.checkWritable, Homes: userHomes(), Protect: func(path string) string { return instructs(a.opts.Config, path) }}), []tool.Tool{todo.New()})
	if searchTool, err := a.openIndex(); err == nil {
		ts = append(ts, searchTool)
	} else { // it can be rebuilt at any time; conversations work without it
		a.opts.Log.Error("cannot open search index", zap.Error(err))
		a.opts.Say(fmt.Sprintf("⚠️ past conversations cannot be searched: %v", err))
	}
	actions, err := a.actionTools()
	if err != nil {
		return tool.Set{}, err
	}
	if a.makeEngine, err = a.findEngine(a.opts.Config.Context.Engine); err != nil {
		return tool.Set{}, err
	}
	ts = slices.Concat(ts, actions, a.recallTools())
	ts = append(ts, a.prompts.tools(a.store.SessionByID)...)
	return tool.NewSet(tool.Without(ts, a.opts.Config.Agent.DisabledToolsets)...)
}
