package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/cmdpolicy"
	"hermesd/agent/cmdreview"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/protected"
	"hermesd/agent/tool"
	"hermesd/agent/tools/clarify"
	"hermesd/agent/tools/cronjob"
	"hermesd/agent/tools/delegate"
	"hermesd/agent/tools/sendmessage"
	"hermesd/agent/tools/terminal"
	"hermesd/agent/tools/web"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/hygiene"
	"hermesd/internal/safehttp"
	"hermesd/internal/spawn"
)

// actionTools returns the tools that change something or that reach users and
// services outside of the conversation.
func (a *App) actionTools() ([]tool.Tool, error) {
	ts := []tool.Tool{clarify.New(), sendmessage.New(a.sendTargets), cronjob.New(cronPort{a.cron.Manager(), a.store.Job, &a.active, a.masker().Mask})}
	pages, err := a.webTools()
	if err != nil {
		return nil, err
	}
	ts = append(ts, pages...)
	commands, err := a.terminalTools()
	if err != nil {
		return nil, err
	}
	ts = append(ts, commands...)
	d := a.opts.Config.Delegation
	return append(ts, delegate.New(delegate.Options{
		Tools: a.subAgentTools, Model: a.subAgentModel, OnUsage: a.addUsage, OnToolCall: a.reportToolCall, OnPanic: logToolPanic(a.opts.Log), Mask: a.masker().Mask,
		MaxConcurrent: d.MaxConcurrent, MaxIterations: d.MaxIterations, Timeout: d.Timeout, MaxReport: d.MaxReport, RunBudget: a.opts.Config.Agent.RunBudget,
	})), nil
}

// logToolPanic returns a function that logs the panic of a tool.
func logToolPanic(log *zap.Logger) func(name string, value any, stack []byte) {
	return func(name string, value any, stack []byte) {
		log.Error("panic in a tool", zap.String("tool", name), zap.Any("panic", value), zap.ByteString("stack", stack))
	}
}

// checkWritable returns an error if the file tools may not change path. Inside the
// home directory they may change only the workspace, and nothing if the workspace is
// the home directory itself. Everywhere they may change only what is below the paths of
// security.write_safe_root, if there are any.
func (a *App) checkWritable(path string) error {
	home, err := filepath.EvalSymlinks(a.opts.Home)
	if err != nil {
		return fmt.Errorf("the home cannot be found: %w", err)
	}
	roots := a.opts.Config.WriteRoots(a.opts.Home)
	if len(roots) > 0 && !slices.ContainsFunc(roots, func(root string) bool { return isBelow(root, path) }) {
		return fmt.Errorf("the operator lets files be changed only in %s (security.write_safe_root, HERMES_WRITE_SAFE_ROOT)", strings.Join(roots, ", "))
	}
	if !isBelow(home, path) {
		return nil
	}
	work, err := filepath.EvalSymlinks(a.prompts.workspace)
	if err == nil && work != home && isBelow(home, work) && isBelow(work, path) {
		return nil
	}
	return errors.New("it belongs to the daemon: settings, keys, memories and the store are not changed by files; tell the person what you want to have changed")
}

// instructs returns why a change of a file needs an approval because it instructs the
// agent, "" if it needs none.
func instructs(c *config.Config, path string) string {
	s := c.Security
	if !s.ProtectedInstructionFiles {
		return ""
	}
	return protected.Instructions(path, s.ProtectedInstructionExtraPatterns)
}

// isBelow reports whether path is dir or in it.
func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// webTools returns the tools that read pages and search the web.
func (a *App) webTools() ([]tool.Tool, error) {
	blocked, err := a.opts.Config.Security.WebsiteBlocklist.Blocked(a.opts.Home)
	if err != nil {
		return nil, nil // a warning of the configuration says so
	}
	o := web.Options{
		Dial:   safehttp.Options{Environment: true},
		Search: searchOf(a.opts.Config),
		Scan:   scan, Blocked: blocked, Secrets: a.opts.Report.Secrets, UserAgent: "hermesd/" + a.opts.Version, Log: a.opts.Log.Named("web"),
	}
	if a.opts.Web != nil {
		a.opts.Web(&o)
	}
	w, err := web.New(o)
	if err != nil {
		return nil, keyError("web.search", err)
	}
	a.cleanups = append(a.cleanups, func() error { w.Close(); return nil })
	return w.Tools(), nil
}

// searchOf returns the search service of a configuration.
func searchOf(c *config.Config) web.Search {
	s := c.Web.Search
	return web.Search{Provider: s.Provider, BaseURL: s.BaseURL, Key: s.APIKey}
}

// terminalGrace limits the time that Close waits for the processes of commands to
// end.
const terminalGrace = 5 * time.Second

// terminalTools returns the tools that run commands in the workspace; none if the
// configuration disables them.
func (a *App) terminalTools() ([]tool.Tool, error) {
	c := a.opts.Config.Terminal
	if !c.Enabled {
		a.commands = new(terminal.Terminal)
		return nil, nil
	}
	a.reportSandbox()
	sandbox := func() (*spawn.Sandbox, error) {
		box, err := a.sandbox()
		if err != nil {
			return nil, errNoTerminal(err)
		}
		return box, nil
	}
	t, err := terminal.New(terminal.Options{
		Workspace: a.prompts.workspace, Policy: a.checkCommand, Secrets: a.opts.Report.Secrets, Sandbox: sandbox, EnvPassthrough: c.EnvPassthrough,
		Spill: a.home.Path("cache", "terminal"), Timeout: c.Timeout, Folder: a.commandFolder,
	}, a.opts.Log)
	if err != nil {
		return nil, err
	}
	a.commands = t
	a.cleanups = append(a.cleanups, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), terminalGrace)
		defer cancel()
		return t.Close(ctx)
	})
	return t.Tools(), nil
}

// checkCommand evaluates the command policy for a command before it runs.
func (a *App) checkCommand(_ context.Context, r terminal.PolicyRequest) terminal.PolicyResult {
	p := a.commandPlace(r.Dir, r.Session)
	p.NeedsNetwork = r.Network
	v := cmdpolicy.Evaluate(r.Command, p)
	if d := v.Denied(r.Command, a.opts.Config.Approvals.Deny); d != "" {
		return terminal.PolicyResult{Blocked: "the operator forbids commands like " + d + " (approvals.deny); do not try it in another way"}
	}
	switch v.Decision {
	case cmdpolicy.Run:
		return terminal.PolicyResult{NoNetwork: p.Sandbox == cmdpolicy.Full && !p.NoNetwork && !v.Network}
	case cmdpolicy.Ask:
		reasons := v.Reasons
		for _, d := range v.Details {
			reasons = append(reasons, "`"+strings.ReplaceAll(d, "`", "'")+"`")
		}
		return terminal.PolicyResult{Reasons: reasons, Shapes: v.Shapes}
	default:
		return terminal.PolicyResult{Blocked: strings.Join(v.Reasons, "; ")}
	}
}

// sendTargets returns the targets that the tool send_message can name.
func (a *App) sendTargets(ctx context.Context, _ string) ([]sendmessage.Target, error) {
	targets, err := a.targets.Known(ctx)
	var ts []sendmessage.Target
	for _, p := range targets {
		ts = append(ts, sendmessage.Target{Name: p.Name, Note: p.Note})
	}
	return ts, err
}

// subAgentTools returns the tools that sub-agents of a session get: those of the
// session.
func (a *App) subAgentTools(ctx context.Context, id string) ([]tool.Tool, error) {
	rec, _, err := a.store.SessionByID(ctx, session.ID(id)) // zero in the first turn: the session is not stored yet
	if err != nil {
		return nil, err
	}
	if actor, ok := a.active.Actor(session.ID(id)); ok {
		rec.Address = actor.Address
	}
	var ts []tool.Tool
	for _, t := range tool.Select(a.withoutTerminal(a.toolSet.Tools()), a.toolsets(rec.Address)) {
		if found, ok := a.toolSet.Lookup(t.Name); ok {
			ts = append(ts, found)
		}
	}
	return ts, nil
}

// subAgentModel returns the model of a session for its sub-agents.
func (a *App) subAgentModel(ctx context.Context, id string) (delegate.Model, error) {
	rec, _, err := a.store.SessionByID(ctx, session.ID(id))
	if err != nil {
		return delegate.Model{}, err
	}
	m, err := a.models.Choose(rec.Settings)
	if err != nil {
		return delegate.Model{}, err
	}
	return delegate.Model{
		Provider: m.Provider, Name: m.Model, Effort: m.Effort, CacheTTL: m.CacheTTL, MaxTokens: a.opts.Config.Model.MaxTokens,
		Window: func() *agent.ContextWindow {
			if !a.opts.Config.Compression.Enabled {
				return nil
			}
			limit := hygiene.Settings{Threshold: a.opts.Config.Compression.Threshold}.MaxRequest(m.Window)
			return &agent.ContextWindow{Engine: compressor.New(a.compressorOptions(m, nil)), Window: m.Window, Limit: limit}
		},
	}, nil
}

// addUsage adds the call of a sub-agent to the usage of the session that started it.
func (a *App) addUsage(id string, c agent.Call) { a.usage.Charge(session.ID(id), c) }

// reportToolCall reports the tool call of a sub-agent to the observers.
func (a *App) reportToolCall(id string, ev agent.ToolFinished) {
	actor, _ := a.active.Actor(session.ID(id))
	a.telemetry.Observe(observe.ToolCalled{Turn: actor.Turn, Tool: ev.Name, Failed: ev.Failed, Took: ev.Took})
}

// approvalReviewer returns a function that asks the auxiliary model whether a
// command is so harmless that nobody has to approve it.
func (a *App) approvalReviewer() func(context.Context, tool.ApprovalRequest) (bool, error) {
	e, timeout := a.opts.Report.Approval, a.opts.Config.Auxiliary.Approval.Timeout
	if e.Provider == "" {
		e = a.opts.Report.Model
	}
	j := cmdreview.Reviewer{Provider: a.providers().of(e), Model: e.Model, Timeout: timeout, Mask: a.opts.Report.Secrets.Mask}
	return func(ctx context.Context, r tool.ApprovalRequest) (bool, error) {
		if r.Tool != terminal.Name { // the model judges commands only
			return false, nil
		}
		ok, usage, err := j.IsHarmless(ctx, r.Command, r.Reasons)
		a.usage.Charge("", agent.Call{Provider: e.Provider, Model: e.Model, Usage: usage})
		return ok, err
	}
}
