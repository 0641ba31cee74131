package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/cmdpolicy"
	"hermesd/agent/cmdreview"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/tool"
	"hermesd/agent/tools/clarify"
	"hermesd/agent/tools/cronjob"
	"hermesd/agent/tools/delegate"
	"hermesd/agent/tools/sendmessage"
	"hermesd/agent/tools/terminal"
	"hermesd/agent/tools/web"
	"hermesd/gateway/session"
	"hermesd/internal/safehttp"
	"hermesd/internal/spawn"
	"hermesd/storage"
)

// actionTools are the tools that change something, or that reach people and places
// outside of the conversation.
func (a *App) actionTools() ([]tool.Tool, error) {
	ts := []tool.Tool{clarify.New(), sendmessage.New(a.destinations), cronjob.New(cronPort{a})}
	pages, err := a.webTools()
	if err != nil {
		return nil, err
	}
	ts = append(ts, pages...)
	commands, err := a.terminal()
	if err != nil {
		return nil, err
	}
	ts = append(ts, commands...)
	return append(ts, delegate.New(delegate.Options{Tools: a.subAgentTools, Model: a.childModel, OnUsage: a.addUsage, OnToolCall: a.reportToolCall, OnPanic: a.toolPanic})), nil
}

// toolPanic tells the operator of a tool that has a bug.
func (a *App) toolPanic(name string, value any, stack []byte) {
	a.opts.Log.Error("panic in a tool", zap.String("tool", name), zap.Any("panic", value), zap.ByteString("stack", stack))
}

// protected says why a file may not be changed by the tools: in the home only
// the workspace is theirs, also where the workspace is the home itself.
func (a *App) protected(path string) error {
	home, err := filepath.EvalSymlinks(a.opts.Home)
	if err != nil {
		return fmt.Errorf("the home cannot be found: %w", err)
	}
	if !below(home, path) {
		return nil
	}
	work, err := filepath.EvalSymlinks(a.prompts.workspace)
	if err == nil && work != home && below(home, work) && below(work, path) {
		return nil
	}
	return errors.New("it belongs to the daemon: settings, keys, memories and the store are not changed by files; tell the person what you want to have changed")
}

// below reports whether path is dir or in it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// hidden is what commands in the sandbox do not see: the home, or where they work
// in the home itself, what they must not know or change there.
func (a *App) hidden() []string {
	if work := filepath.Clean(a.prompts.workspace); !below(work, filepath.Clean(a.opts.Home)) {
		return []string{a.opts.Home}
	}
	var names []string
	for _, n := range []string{".env", "config.yaml", "hermesd.db", "search.db", "http.key", scrapeKeyFile, "hermesd.sock", storage.LockName, "memories", "backups"} {
		names = append(names, a.home.Path(n))
	}
	return names
}

// webTools read pages and search.
func (a *App) webTools() ([]tool.Tool, error) {
	c := a.opts.Config.Web.Search
	o := web.Options{
		Dial:   safehttp.Options{Environment: true},
		Search: web.Search{Provider: c.Provider, BaseURL: c.BaseURL, Key: c.APIKey},
		Scan:   scan, Secrets: a.opts.Report.Secrets, UserAgent: "hermesd/" + a.opts.Version, Log: a.opts.Log.Named("web"),
	}
	if a.opts.Web != nil {
		a.opts.Web(&o)
	}
	w, err := web.New(o)
	if err != nil {
		return nil, wrongKey("web.search", err)
	}
	a.undo = append(a.undo, func() error { w.Close(); return nil })
	return w.Tools(), nil
}

// terminalGrace is how long the processes of commands may take to end with the
// daemon.
const terminalGrace = 5 * time.Second

// terminal runs commands in the workspace. Without the sandbox that the
// configuration requires there is none.
func (a *App) terminal() ([]tool.Tool, error) {
	c := a.opts.Config.Terminal
	if !c.Enabled {
		return nil, nil
	}
	spill := a.home.Path("cache", "terminal")
	if err := os.MkdirAll(spill, 0o700); err != nil {
		return nil, fmt.Errorf("output of commands: %w", err)
	}
	a.sandbox = sync.OnceValues(func() (*spawn.Sandbox, error) { return a.openSandbox(spill) })
	if c.Sandbox == string(spawn.Require) { // else it is looked for once the daemon is ready
		if _, err := a.sandbox(); err != nil {
			return nil, nil
		}
	}
	t, err := terminal.New(terminal.Options{
		Workspace: a.prompts.workspace, Policy: guarded, Mask: a.opts.Report.Secrets.Mask, Sandbox: a.sandbox, EnvPassthrough: c.EnvPassthrough,
		Spill: spill, Timeout: c.Timeout, Folder: a.folder,
	}, a.opts.Log)
	if err != nil {
		return nil, err
	}
	a.commands = t
	a.undo = append(a.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), terminalGrace)
		defer cancel()
		return t.Close(ctx)
	})
	return t.Tools(), nil
}

// openSandbox finds out which sandbox works here, and has the operator know.
func (a *App) openSandbox(spill string) (*spawn.Sandbox, error) {
	c := a.opts.Config.Terminal
	box, err := spawn.Open(context.Background(), spawn.Mode(c.Sandbox), spawn.Policy{
		Write: []string{a.prompts.workspace}, Read: []string{spill, MediaDir(a.home), a.home.Path("skills")}, Hide: a.hidden(),
		Network: c.Network, Temp: a.home.Path("cache", "tmp"), Processes: c.MaxProcesses,
	})
	switch {
	case err != nil:
		a.opts.Log.Error("the terminal runs nothing", zap.Error(err))
		a.opts.Say(fmt.Sprintf("⚠️ the terminal runs nothing: %v", err))
		return nil, fmt.Errorf("there is no sandbox for it: %w", err)
	case box.Status().Mechanism == spawn.None && c.Sandbox != string(spawn.Off):
		a.opts.Log.Warn(box.Status().String())
	default:
		a.opts.Log.Info(box.Status().String())
	}
	return box, nil
}

// guarded judges a command before it runs.
func guarded(_ context.Context, command string) terminal.PolicyResult {
	switch v := cmdpolicy.Evaluate(command); v.Class {
	case cmdpolicy.Allowed:
		return terminal.PolicyResult{}
	case cmdpolicy.Dangerous:
		return terminal.PolicyResult{Reasons: v.Reasons, Key: v.ApprovalKey}
	default:
		return terminal.PolicyResult{Blocked: strings.Join(v.Reasons, "; ")}
	}
}

// destinations are the places that send_message can name.
func (a *App) destinations(ctx context.Context, _ string) ([]sendmessage.Target, error) {
	places, err := a.gateway.KnownTargets(ctx)
	var ts []sendmessage.Target
	for _, p := range places {
		ts = append(ts, sendmessage.Target{Name: p.Name, Note: p.Note})
	}
	return ts, err
}

// subAgentTools are the tools of a session, for sub-agents.
func (a *App) subAgentTools(ctx context.Context, id string) ([]tool.Tool, error) {
	rec, _, err := a.store.SessionByID(ctx, session.ID(id)) // not stored yet in its first turn
	if err != nil {
		return nil, err
	}
	if who, ok := a.gateway.Actor(session.ID(id)); ok {
		rec.Address = who.Address
	}
	var ts []tool.Tool
	for _, t := range tool.Select(a.set.Tools(), a.toolsets(rec.Address)) {
		if found, ok := a.set.Lookup(t.Name); ok {
			ts = append(ts, found)
		}
	}
	return ts, nil
}

// childModel is what sub-agents of a session are answered by: what answers the
// session.
func (a *App) childModel(ctx context.Context, id string) (delegate.Model, error) {
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
			return &agent.ContextWindow{Engine: compressor.New(a.compressor(m, nil))}
		},
	}, nil
}

// addUsage puts a call of a sub-agent onto the bill of the session that has made
// it.
func (a *App) addUsage(id string, c agent.Call) { a.gateway.AddUsage(session.ID(id), c) }

// reportToolCall tells those who count of a tool call of a sub-agent.
func (a *App) reportToolCall(id string, ev agent.ToolFinished) {
	a.gateway.ReportToolCall(session.ID(id), ev)
}

// approvalReviewer asks the auxiliary model whether a command is harmless enough to need
// no person; nil unless approvals.mode is smart.
func (a *App) approvalReviewer() func(context.Context, tool.ApprovalRequest) (bool, error) {
	if a.opts.Config.Approvals.Mode != "smart" {
		return nil
	}
	e, timeout := a.opts.Report.Approval, a.opts.Config.Auxiliary.Approval.Timeout
	if e.Provider == "" {
		e = a.opts.Report.Model
	}
	j := cmdreview.Reviewer{Provider: a.endpoint(e), Model: e.Model, Timeout: timeout, Mask: a.opts.Report.Secrets.Mask}
	return func(ctx context.Context, r tool.ApprovalRequest) (bool, error) {
		ok, usage, err := j.IsHarmless(ctx, r.Command, r.Reasons)
		a.gateway.AddUsage("", agent.Call{Provider: e.Provider, Model: e.Model, Usage: usage})
		return ok, err
	}
}
