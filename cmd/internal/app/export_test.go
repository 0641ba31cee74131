package app

import (
	"context"
	"path/filepath"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Prompts returns the function that builds the prompts of sessions in a home
// directory, without a daemon.
func Prompts(c *config.Config, r config.Report, home string) (func(session.Record) prompt.Prefix, error) {
	a := &App{opts: Options{Config: c, Report: r, Home: home, Log: zap.NewNop(), Say: func(string) {}}, sandbox: noSandbox}
	if err := a.loadPromptInputs(); err != nil {
		return nil, err
	}
	a.lengths = &contextLengths{opts: a.opts, table: tokens.Builtin(), learned: tokens.NewLearnedLengths(nil)}
	a.models = newModels(c, r, nil, a.lengths)
	tools, err := tool.NewSet(a.prompts.tools()...)
	if err != nil {
		return nil, err
	}
	b := &prefixes{promptInputs: a.prompts, opts: a.opts, models: a.models, tools: tools.Tools()}
	return func(r session.Record) prompt.Prefix {
		p, _ := b.build(r)
		return p
	}, nil
}

// Pipeline returns the message pipeline. It runs while Run does.
func (a *App) Pipeline() *pipeline.Pipeline { return a.pipeline }

// Store returns the open store. It is closed when Run returns.
func (a *App) Store() store.Store { return a.store }

// Console returns the adapter of the local chat.
func (a *App) Console() *console.Adapter { return a.console }

// Script runs the script of a job.
func (a *App) Script(ctx context.Context, j schedule.Job) (string, error) {
	return scripts{filepath.Join(a.opts.Home, "scripts"), a.prompts.workspace, a.opts.Config.Terminal.EnvPassthrough, a.opts.Report.Secrets.Mask}.Run(ctx, j)
}

// Resets returns the reset policy of a configuration.
func Resets(c *config.Config) func(chat.Address) session.ResetPolicy { return resetPolicyFor(c) }

// Homes returns the home channels of a configuration.
func Homes(c *config.Config) map[chat.Platform]chat.Address { return homeChannels(c) }
