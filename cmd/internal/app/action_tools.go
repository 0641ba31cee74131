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
	"hermesd/gateway/active"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
	"hermesd/gateway/usage"
	"hermesd/hygiene"
	"hermesd/internal/spawn"
)

// actionTools returns the tools that change something or that reach users and
// services outside of the conversation.
func (a *App) actionTools() ([]tool.Tool, error) {
	ts := []tool.Tool{clarify.New(), sendmessage.New(sendTargets{a.outgoing.Targets}.list), cronjob.New(cronPort{a.outgoing.Cron.Manager(), a.store.Job, &a.active, a.opts.masker().Mask})}
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
	c := a.opts.Config
	d := c.Delegation
	s := subAgents{a.store, &a.active, a.usage, a.telemetry.Observe, c, a.models, a.engines}
	return append(ts, delegate.New(delegate.Options{
		Model: s.model, OnUsage: s.addUsage, OnToolCall: s.reportToolCall, OnPanic: logToolPanic(a.opts.Log), Mask: a.opts.masker().Mask,
		MaxConcurrent: d.MaxConcurrent, MaxIterations: d.MaxIterations, Timeout: d.Timeout, MaxReport: d.MaxReport, RunBudget: c.Agent.RunBudget,
	})), nil
}

// logToolPanic returns a function that logs the panic of a tool.
func logToolPanic(log *zap.Logger) func(name string, value any, stack []byte) {
	return func(name string, value any, stack []byte) {
		log.Error("panic in a tool", zap.String("tool", name), zap.Any("panic", value), zap.ByteString("stack", stack))
	}
}

// checkWritable returns an error if the file tools may not change path. Inside the
// home directory dir they may change only the workspace, and nothing if the workspace is
// the home directory itself. Everywhere they may change only what is below the paths of
// security.write_safe_root, if there are any.
func checkWritable(c *config.Config, dir, path string) error {
	home, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("the home cannot be found: %w", err)
	}
	roots := c.WriteRoots(dir)
	if len(roots) > 0 && !slices.ContainsFunc(roots, func(root string) bool { return isBelow(root, path) }) {
		return fmt.Errorf("the operator lets files be changed only in %s (security.write_safe_root, HERMES_WRITE_SAFE_ROOT)", strings.Join(roots, ", "))
	}
	if !isBelow(home, path) {
		return nil
	}
	work, err := filepath.EvalSymlinks(c.Workspace(dir))
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
	dial := a.opts.Web.Dial
	dial.Environment = true
	w, err := web.New(web.Options{
		Dial: dial, Timeout: a.opts.Web.Timeout, Search: searchOf(a.opts.Config),
		Scan: scan, Blocked: blocked, Secrets: a.opts.Report.Secrets, UserAgent: "hermesd/" + a.opts.Version, Log: a.opts.Log.Named("web"),
	})
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
	rules := commandRules{a.opts, a.prompts, &a.active, a.sandbox}
	t, err := terminal.New(terminal.Options{
		Workspace: a.prompts.workspace, Policy: rules.check, Secrets: a.opts.Report.Secrets, Sandbox: rules.open, EnvPassthrough: c.EnvPassthrough,
		Spill: a.home.Path("cache", "terminal"), Timeout: c.Timeout, Folder: rules.folder,
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

// open returns the sandbox of commands.
func (s commandRules) open() (*spawn.Sandbox, error) {
	box, err := s.sandbox()
	if err != nil {
		return nil, errNoTerminal(err)
	}
	return box, nil
}

// check evaluates the command policy for a command before it runs.
func (s commandRules) check(_ context.Context, r terminal.PolicyRequest) terminal.PolicyResult {
	p := s.place(r)
	v := cmdpolicy.Evaluate(r.Command, p)
	if d := v.Denied(r.Command, s.opts.Config.Approvals.Deny); d != "" {
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

// sendTargets are the targets that the tool send_message can name.
type sendTargets struct{ *target.Directory }

func (d sendTargets) list(ctx context.Context, _ string) ([]sendmessage.Target, error) {
	targets, err := d.Known(ctx)
	var ts []sendmessage.Target
	for _, p := range targets {
		ts = append(ts, sendmessage.Target{Name: p.Name, Note: p.Note})
	}
	return ts, err
}

// subAgents are what sub-agents get of the sessions that start them.
type subAgents struct {
	store   store.Sessions
	active  *active.Turns
	usage   *usage.Meter
	observe observe.Func
	config  *config.Config
	models  *models
	engines contextEngines
}

// model returns the model of a session for its sub-agents.
func (s subAgents) model(ctx context.Context, id string) (delegate.Model, error) {
	rec, _, err := s.store.SessionByID(ctx, session.ID(id))
	if err != nil {
		return delegate.Model{}, err
	}
	m, err := s.models.Choose(rec.Settings)
	if err != nil {
		return delegate.Model{}, err
	}
	return delegate.Model{
		Provider: m.Provider, Name: m.Model, Effort: m.Effort, CacheTTL: m.CacheTTL, MaxTokens: s.config.Model.MaxTokens,
		Window: func() *agent.ContextWindow {
			if !s.config.Compression.Enabled {
				return nil
			}
			limit := hygiene.Settings{Threshold: s.config.Compression.Threshold}.MaxRequest(m.Window)
			return &agent.ContextWindow{Engine: compressor.New(s.engines.options(m, nil)), Window: m.Window, Limit: limit}
		},
	}, nil
}

// addUsage adds the call of a sub-agent to the usage of the session that started it.
func (s subAgents) addUsage(id string, c agent.Call) { s.usage.Charge(session.ID(id), c) }

// reportToolCall reports the tool call of a sub-agent to the observers.
func (s subAgents) reportToolCall(id string, ev agent.ToolFinished) {
	actor, _ := s.active.Actor(session.ID(id))
	s.observe(observe.ToolCalled{Turn: actor.Turn, Tool: ev.Name, Failed: ev.Failed, Took: ev.Took})
}

// approvalReviewer returns a function that asks the auxiliary model whether a
// command is so harmless that nobody has to approve it.
func (a *App) approvalReviewer() func(context.Context, tool.ApprovalRequest) (bool, error) {
	e, timeout, meter := a.opts.Report.Approval, a.opts.Config.Auxiliary.Approval.Timeout, a.usage
	if e.Provider == "" {
		e = a.opts.Report.Model
	}
	j := cmdreview.Reviewer{Provider: a.models.newProvider(e), Model: e.Model, Timeout: timeout, Mask: a.opts.Report.Secrets.Mask}
	return func(ctx context.Context, r tool.ApprovalRequest) (bool, error) {
		if r.Tool != terminal.Name { // the model judges commands only
			return false, nil
		}
		ok, usage, err := j.IsHarmless(ctx, r.Command, r.Reasons)
		meter.Charge("", agent.Call{Provider: e.Provider, Model: e.Model, Usage: usage})
		return ok, err
	}
}
