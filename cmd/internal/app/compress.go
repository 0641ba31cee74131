package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/lcm"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/engine/summary"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
	"hermesd/hygiene"
)

// An engineMaker makes the context engine of one session.
type engineMaker func(rec session.Record, o compressor.Options) (agent.Engine, error)

// engines are the context engines of this binary, by the name that
// context.engine selects.
func (a *App) engines() map[string]engineMaker {
	return map[string]engineMaker{
		compressor.Name: func(_ session.Record, o compressor.Options) (agent.Engine, error) { return compressor.New(o), nil },
		lcm.Name: func(rec session.Record, o compressor.Options) (agent.Engine, error) {
			return lcm.New(o, archive{a, rec.ID}), nil
		},
	}
}

// engine finds a context engine: the compressor is always the built-in one; any
// other name is looked for among the programs of the home first. A directory
// that is not in our form, or a name that nobody knows, is an error.
func (a *App) engine(name string) (engineMaker, error) {
	built := a.engines()
	wrong := func(text string) error {
		return &config.Error{Problems: []config.Problem{{Key: "context.engine", Text: text}}}
	}
	dir := a.home.Path("plugins", "context_engine")
	if _, err := os.Stat(filepath.Join(dir, filepath.Base(name))); err == nil && name != compressor.Name {
		m, err := plugin.Load(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			return nil, wrong(err.Error())
		}
		h := plugin.NewHost(m, a.opts.Log.Named("engine"))
		a.host = h
		a.undo = append(a.undo, func() error { h.Close(); return nil })
		return func(rec session.Record, o compressor.Options) (agent.Engine, error) {
			stepIn := func(state json.RawMessage) agent.Engine {
				o.State = state
				return compressor.New(o)
			}
			return h.New(plugin.Options{Session: string(rec.ID), Limits: o.Limits, State: o.State, Fallback: stepIn}), nil
		}, nil
	}
	if m, ok := built[name]; ok {
		return m, nil
	}
	known := slices.Sorted(maps.Keys(built))
	programs, _ := plugin.List(dir) // those that are not in our form are named when they are chosen
	for _, m := range programs {
		known = append(known, m.Name)
	}
	return nil, wrong(fmt.Sprintf("there is no context engine %q; known are %s", name, strings.Join(known, ", ")))
}

// compression is how contexts are kept small.
func (a *App) compression() (turn.CompactionOptions, error) {
	c := a.opts.Config.Compression
	t := turn.CompactionOptions{
		Settings: hygiene.Settings{Enabled: c.Enabled, MessageLimit: c.HygieneHardMessageLimit},
		MaxWait:  c.HygieneMaxWait, Learn: a.lengths.learn,
	}
	if c.RefreshMemory {
		t.Refresh = a.prompts.refresh
	}
	if !c.Enabled {
		return t, nil
	}
	a.summarise = a.summaries()
	t.Engine = func(rec session.Record, model turn.ModelChoice, state json.RawMessage) (agent.Engine, error) {
		return a.makeEngine(rec, a.compressor(model, state))
	}
	return t, nil
}

// compressor is how an engine summarises conversations with a model.
func (a *App) compressor(model turn.ModelChoice, state json.RawMessage) compressor.Options {
	c := a.opts.Config.Compression
	o := compressor.Options{
		Settings: compressor.Settings{
			Threshold: c.Threshold, TargetRatio: c.TargetRatio, ProtectLastN: c.ProtectLastN, ProtectFirstN: c.ProtectFirstN,
			MinThresholdTokens: c.MinThresholdTokens,
		},
		Limits: agent.Limits{Model: model.Model, Window: model.Window}, State: state, Redact: a.opts.Report.Secrets.Mask,
		Completer: summary.NewCompleter(model.Provider, model.Model, model.Window, a.opts.Config.Auxiliary.Compression.Timeout),
	}
	if a.summarise != nil {
		o.Main, o.Completer = o.Completer, a.summarise
	}
	return o
}

// summaries asks the model that is configured for summaries; nil if it is the one
// that answers.
func (a *App) summaries() summary.Completer {
	e := a.opts.Report.Summary
	if e.Provider == "" {
		return nil
	}
	task := a.opts.Config.Auxiliary.Compression
	window := a.lengths.of(e)
	if main := a.lengths.of(a.opts.Report.Model); window < main {
		a.opts.Log.Warn("the model that writes summaries takes less than the one that answers: long conversations are summarised in parts",
			zap.String("model", e.Model), zap.Int("tokens", window), zap.Int("main", main))
	}
	return summary.NewCompleter(a.endpoint(e), e.Model, window, task.Timeout)
}
