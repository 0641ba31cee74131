package app

import (
	"context"

	"go.uber.org/zap"

	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// Prompts returns what builds the prompts of sessions in a home, without a daemon
// around it.
func Prompts(c *config.Config, r config.Report, home string) (func(session.Record) prompt.Prefix, error) {
	a := &App{opts: Options{Config: c, Report: r, Home: home, Log: zap.NewNop()}}
	if err := a.loadPromptInputs(); err != nil {
		return nil, err
	}
	a.models = newModels(c, r, nil, nil)
	tools, err := tool.NewSet(a.prompts.tools(nil)...)
	if err != nil {
		return nil, err
	}
	build := a.prefix(tools)
	return func(r session.Record) prompt.Prefix {
		p, _ := build(r)
		return p
	}, nil
}

// Script runs the script of a job.
func (a *App) Script(ctx context.Context, j schedule.Job) (string, error) { return a.script(ctx, j) }

// Resets is when conversations of a place start over.
func Resets(c *config.Config) func(chat.Address) session.ResetPolicy { return resets(c) }

// Homes are the home channels that a configuration names.
func Homes(c *config.Config) map[chat.Platform]chat.Address { return homes(c) }
