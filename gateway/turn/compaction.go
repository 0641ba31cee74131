package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/gateway/conversation"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// CompactionOptions configures the compaction of sessions.
type CompactionOptions struct {
	hygiene.Settings
	// MaxWait limits how long a message waits for a compaction by hygiene that is not
	// urgent.
	MaxWait time.Duration
	// Engine creates the context engine of a session from its stored state; nil
	// disables compaction.
	Engine func(rec session.Record, model conversation.ModelChoice, state json.RawMessage) (agent.Engine, error)
	// Refresh returns the prompt with its files read again, for use after a
	// compaction; nil: the prompt stays as it is.
	Refresh func(session.Record, prompt.Prefix) prompt.Prefix
	// Learn stores the context length of a model that an error message named; nil: it
	// is ignored.
	Learn func(provider, model string, window int)
}

// engine returns the context engine of the turn's session, created if necessary; nil
// if compaction is disabled or the engine cannot be created.
func (t *turn) engine(ctx context.Context) agent.Engine {
	if t.runner.parts.Compaction.Engine == nil {
		return nil
	}
	if t.session.Engine.Engine != nil {
		t.updateLimits()
		return t.session.Engine.Engine
	}
	var state json.RawMessage
	var err error
	if !t.session.IsNew() {
		if state, err = t.runner.parts.Store.Engine(ctx, t.session.Record.ID); err != nil {
			t.log.Error("cannot load context engine state", zap.Error(err))
			return nil
		}
	}
	newest := state
	if t.session.Engine.Recorded != nil { // by an earlier run of the turn
		newest = t.session.Engine.Recorded
	}
	e, err := t.runner.parts.Compaction.Engine(t.session.Record, t.session.Model, newest)
	if err != nil {
		t.log.Error("cannot create context engine", zap.Error(err))
		return nil
	}
	t.session.Engine.Engine, t.session.Engine.Saved, t.session.Engine.Limits = e, state, t.limits()
	return e
}

func (t *turn) limits() agent.Limits {
	return agent.Limits{Model: t.session.Model.Model, Window: t.session.Model.Window}
}

// updateLimits sets the limits of the current model on the engine, unless a
// compaction uses the engine.
func (t *turn) updateLimits() {
	now := t.limits()
	if now == t.session.Engine.Limits || t.runner.parts.Sessions.Passes.Get(t.session.Record.ID) != nil {
		return
	}
	if l, ok := t.session.Engine.Engine.(agent.Lifecycle); ok {
		l.Limits(now)
	}
	t.session.Engine.Limits = now
}

// openContextWindow returns the context window of the run, after a compaction by
// hygiene if one is due, and rows for the user. The window is nil if there is no
// engine, or a running compaction uses it.
func (t *turn) openContextWindow(ctx context.Context, resumed bool) (*agent.ContextWindow, []outbox.Row) {
	e := t.engine(ctx)
	if e == nil {
		return nil, nil
	}
	w := t.newContextWindow(e)
	if resumed { // the recorded steps include a compaction that was due
		return w, nil
	}
	rows, busy := t.compactBeforeTurn(ctx, w)
	if busy {
		w.Engine = t.replaceEngine(ctx)
		if w.Engine == nil {
			return nil, rows
		}
	}
	return w, rows
}

// replaceEngine gives the session another engine while a compaction uses its own.
// It returns nil if it cannot be created.
func (t *turn) replaceEngine(ctx context.Context) agent.Engine {
	if p := t.runner.parts.Sessions.Passes.Get(t.session.Record.ID); p != nil && p.Engine == t.session.Engine.Engine {
		t.runner.parts.Sessions.Passes.HandOver(t.session.Record.ID, p.Engine)
		t.session.Engine.Engine = nil
	}
	return t.engine(ctx)
}

// newContextWindow returns the context window of the session as stored.
func (t *turn) newContextWindow(e agent.Engine) *agent.ContextWindow {
	window := t.session.Model.Window
	w := &agent.ContextWindow{Engine: e, Window: window, Limit: t.runner.parts.Compaction.MaxRequest(window), First: t.session.Record.Start, Reported: t.session.Record.PromptTokens, At: t.session.Record.PromptMessages}
	if refresh := t.runner.parts.Compaction.Refresh; refresh != nil {
		w.Refresh = func(p prompt.Prefix) prompt.Prefix { return refresh(t.session.Record, p) }
	}
	return w
}

// compactBeforeTurn compacts the session before the turn if hygiene decides so. If the
// session is above the limit and its summary is not finished in time, the compaction
// is made without a model. busy reports whether a compaction is still running, which a
// later turn adopts.
func (t *turn) compactBeforeTurn(ctx context.Context, w *agent.ContextWindow) (rows []outbox.Row, busy bool) {
	current := agent.Turn{Prefix: t.session.Prefix, Prefill: t.runner.parts.Settings.Prefill, Transcript: t.session.Transcript}
	p := t.runner.parts.Sessions.Passes.Get(t.session.Record.ID)
	facts := hygiene.Facts{
		Reported: t.session.Record.PromptTokens, Since: tokens.Since(t.session.Transcript, min(t.session.Record.PromptMessages, t.session.Transcript.Len())),
		Window: t.session.Model.Window, Messages: t.session.Transcript.Len(), Busy: p != nil, CoolingDown: w.Engine.Status().Cooldown != "",
	}
	if facts.Reported == 0 {
		facts.Estimate = w.Size(&current)
	}
	d := hygiene.Decide(facts, t.runner.parts.Compaction.Settings)
	if p == nil && d.Compress {
		v := w.View(&current, "")
		v.Messages, v.Force = slices.Clone(v.Messages), d.Urgent
		p = t.runner.parts.Sessions.Passes.Start(t.session.Record.ID, t.session.Transcript, w.Engine, v, agent.WhyHygiene)
		t.log.Info("hygiene compaction started", zap.Int("tokens", d.Tokens), zap.Int("window", facts.Window), zap.String("reason", d.Reason))
	}
	if p == nil {
		return nil, false
	}
	tooLong := facts.Window > 0 && d.Tokens > w.Limit
	if !t.awaitCompaction(ctx, p, d.Urgent || tooLong && p.Reason == agent.WhyCompression) {
		if ctx.Err() != nil || !tooLong {
			return nil, true
		}
		p = t.compactWithoutModel(p, w, &current)
	}
	t.claimCompaction(p)
	w.Engine = t.session.Engine.Engine
	return t.adoptCompaction(w, p, d), false
}

// compactWithoutModel ends p, unless it has just finished, and returns a compaction
// without a summary of a model in its place.
func (t *turn) compactWithoutModel(p *hygiene.Pass, w *agent.ContextWindow, current *agent.Turn) *hygiene.Pass {
	p.Cancel()
	if p.Err == nil {
		return p
	}
	t.claimCompaction(p)
	v := w.View(current, "")
	v.Messages, v.Force, v.WithoutModel = slices.Clone(v.Messages), true, true
	p = t.runner.parts.Sessions.Passes.Start(t.session.Record.ID, t.session.Transcript, t.session.Engine.Engine, v, agent.WhyHygiene)
	<-p.Done()
	return p
}

// awaitCompaction waits for p and reports whether it is finished. It waits for MaxWait,
// or, if urgent, without a limit and notifies the user after MaxWait.
func (t *turn) awaitCompaction(ctx context.Context, p *hygiene.Pass, urgent bool) bool {
	limit := time.NewTimer(t.runner.parts.Compaction.MaxWait)
	defer limit.Stop()
	for {
		select {
		case <-p.Done():
			return true
		case <-ctx.Done():
			return false
		case <-limit.C:
			if !urgent {
				return false
			}
			t.notify(t.T("This conversation has become very long; I am summarising its older part before I answer."))
		}
	}
}

// adoptCompaction makes p part of the turn, unless it failed or the conversation has
// changed since. It returns rows for the user.
func (t *turn) adoptCompaction(w *agent.ContextWindow, p *hygiene.Pass, d hygiene.Decision) []outbox.Row {
	switch {
	case errors.Is(p.Err, agent.ErrCoolingDown):
		return nil
	case p.Err != nil:
		t.log.Warn("cannot compact session", zap.Error(p.Err))
		t.reportCompaction(p.Reason, true, p.Result)
		return t.notices([]string{t.T("I could not summarise the older part of this conversation: %v. Nothing is lost; I try again later.", p.Err)})
	case !p.AppliesTo(t.session.Record.Start, t.session.Transcript):
		t.log.Info("compaction ignored: the conversation has changed since")
		return nil
	}
	w.Ready, w.AdoptAt, w.Reason = &p.Result, len(p.View.Messages), p.Reason
	if after := p.Result.After; after >= hygiene.Urgent(t.session.Model.Window) {
		t.log.Warn("conversation is too long even after compaction", zap.Int("tokens", after), zap.Int("window", t.session.Model.Window))
	}
	t.runner.parts.Sessions.Passes.Adopted()
	text := t.T("I have summarised the older part of this conversation: about %d tokens became %d. Nothing is deleted.", d.Tokens, p.Result.After)
	return t.notices([]string{text + t.compactionNote(p.Result)})
}

// compactionNote returns what the engine adds to the message about its compaction,
// with a leading space; "" if nothing.
func (t *turn) compactionNote(p agent.Compaction) (text string) {
	if len(p.Sentences) == 0 && p.Explanation != "" {
		return " " + p.Explanation
	}
	for _, s := range p.Sentences {
		args := make([]any, len(s.Args))
		for i, a := range s.Args {
			args[i] = a
		}
		text += " " + t.T(s.English, args...)
	}
	return text
}

// claimCompaction makes the turn the owner of a finished compaction and of its
// engine, whose state includes the result. If the session got another engine in the
// meantime, that one stays unless the result can be adopted.
func (t *turn) claimCompaction(p *hygiene.Pass) {
	t.runner.parts.Sessions.Passes.Remove(t.session.Record.ID, p)
	unused := t.session.Engine.Engine
	if unused != nil && unused != p.Engine && (p.Err != nil || !p.AppliesTo(t.session.Record.Start, t.session.Transcript)) {
		unused = p.Engine
	} else {
		t.session.Engine.Engine = p.Engine
	}
	if l, ok := unused.(agent.Lifecycle); ok && unused != t.session.Engine.Engine {
		l.End()
	}
	t.session.Engine.Limits = agent.Limits{}
	t.updateLimits()
}

// recordCompaction adds a compaction by the agent to the changes of the turn.
func (t *turn) recordCompaction(ev agent.Compacted) error {
	if err := t.session.Compacted(ev); err != nil {
		return err
	}
	t.reportCompaction(ev.Reason, false, ev.Compaction)
	t.auxiliaryUsage = t.auxiliaryUsage.Add(ev.Usage)
	t.trace.Notices = append(t.trace.Notices, fmt.Sprintf("%s: about %d tokens became %d, %d messages archived", ev.Reason, ev.Before, ev.After, ev.To-ev.From))
	return nil
}
