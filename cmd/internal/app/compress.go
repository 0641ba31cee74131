package app

import (
	"encoding/json"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/lcm"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/engine/summary"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// An engineMaker creates the context engine of one session.
type engineMaker func(rec session.Record, o compressor.Options) (agent.Engine, error)

// builtinEngines returns the context engines of this binary, keyed by the value of
// context.engine.
func (a *App) builtinEngines() map[string]engineMaker {
	sessions := a.store
	return map[string]engineMaker{
		compressor.Name: func(_ session.Record, o compressor.Options) (agent.Engine, error) { return compressor.New(o), nil },
		lcm.Name: func(rec session.Record, o compressor.Options) (agent.Engine, error) {
			return lcm.New(o, archive{sessions, rec.ID}), nil
		},
	}
}

// externalEngine returns the context engine that is a program.
func (a *App) externalEngine(m plugin.Manifest) engineMaker {
	h := plugin.NewHost(m, a.opts.Log.Named("engine"))
	a.engineHost = h
	a.cleanups = append(a.cleanups, func() error { h.Close(); return nil })
	return func(rec session.Record, o compressor.Options) (agent.Engine, error) {
		stepIn := func(state json.RawMessage) agent.Engine {
			o.State = state
			return compressor.New(o)
		}
		return h.New(plugin.Options{Session: string(rec.ID), Limits: o.Limits, State: o.State, Fallback: stepIn}), nil
	}
}

// compactionOptions returns the settings of compaction and hygiene for turns.
func (a *App) compactionOptions() compaction.Options {
	c := a.opts.Config.Compression
	return compaction.Options{
		Settings: hygiene.Settings{Enabled: c.Enabled, MessageLimit: c.HygieneHardMessageLimit, Threshold: c.Threshold},
		MaxWait:  c.HygieneMaxWait, Learn: a.lengths.setFromError,
		Refresh: a.prefixes.refresh, Engine: a.engines.engine,
	}
}

// contextEngines create the context engines of sessions.
type contextEngines struct {
	config    *config.Config
	report    config.Report
	create    engineMaker
	summaries summary.Completer // the model configured for summaries, if one is and compression is on
}

// openEngines opens the context engine that is configured.
func (a *App) openEngines() (err error) {
	a.engines = contextEngines{config: a.opts.Config, report: a.opts.Report}
	if a.opts.Config.Compression.Enabled && a.opts.Report.Summary.Provider != "" {
		a.engines.summaries = a.newSummaryCompleter()
	}
	a.engines.create, err = a.findEngine(a.opts.Config.Context.Engine)
	return err
}

// engine implements compaction.Options.Engine.
func (e contextEngines) engine(rec session.Record, model conversation.ModelChoice, state json.RawMessage) (agent.Engine, error) {
	return e.create(rec, e.options(model, state))
}

// options returns the options of an engine for a session with this model and engine state.
func (e contextEngines) options(model conversation.ModelChoice, state json.RawMessage) compressor.Options {
	c := e.config.Compression
	o := compressor.Options{
		Settings: compressor.Settings{
			Threshold: c.Threshold, TargetRatio: c.TargetRatio, ProtectLastN: c.ProtectLastN, ProtectFirstN: c.ProtectFirstN,
			MinThresholdTokens: c.MinThresholdTokens,
		},
		Limits: agent.Limits{Model: model.Model, Window: model.Window}, State: state, Redact: e.report.Secrets.Mask,
		Completer: summary.NewCompleter(model.Provider, model.Model, model.Window, e.config.Auxiliary.Compression.Timeout),
	}
	if e.report.Summary.Provider != "" {
		o.Main, o.Completer = o.Completer, e.summaries
	}
	return o
}

// newSummaryCompleter returns the model that is configured for summaries.
func (a *App) newSummaryCompleter() summary.Completer {
	e := a.opts.Report.Summary
	task := a.opts.Config.Auxiliary.Compression
	window := a.lengths.lengthOf(e)
	if main := a.lengths.lengthOf(a.opts.Report.Model); window < main {
		a.opts.Log.Warn("summary model has a smaller context than the main model; long conversations are summarized in parts",
			zap.String("model", e.Model), zap.Int("tokens", window), zap.Int("main", main))
	}
	return summary.NewCompleter(a.models.newProvider(e), e.Model, window, task.Timeout)
}
