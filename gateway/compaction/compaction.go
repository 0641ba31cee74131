// Package compaction compacts conversations for turns. It creates the context engine of a
// session, makes the compaction before a turn if package hygiene decides so and the one
// that a user asks for, and adopts the results of passes that have finished outside of
// turns. During a turn the engine compacts when package agent calls it.
package compaction

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/gateway/active"
	"hermesd/gateway/conversation"
	"hermesd/gateway/i18n"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/hygiene"
)

// Options configure the compaction of sessions. Without Enabled no context engine is
// created; the other fields are set in any case.
type Options struct {
	hygiene.Settings
	// MaxWait limits how long a message waits for a compaction by hygiene that is not
	// urgent.
	MaxWait time.Duration
	// Engine creates the context engine of a session from its stored state.
	Engine func(rec session.Record, model conversation.ModelChoice, state json.RawMessage) (agent.Engine, error)
	// Refresh returns the prompt with its files read again, for use after a
	// compaction.
	Refresh func(session.Record, prompt.Prefix) prompt.Prefix
	// Learn stores the context length of a model that an error message named.
	Learn func(provider, model string, window int)
}

// Parts are the collaborators of a Compactor. All are set.
type Parts struct {
	Store   store.Sessions
	Passes  *hygiene.Passes
	Prefill []llm.Message // between the prompt and the transcript of every call
	Printer i18n.Printer
	Observe observe.Func // receives the events of compactions; must not block
	Options Options
}

// A Compactor compacts conversations. Its methods may be called from any goroutine.
type Compactor struct{ Parts }

// New returns a Compactor.
func New(p Parts) *Compactor { return &Compactor{p} }

// A Turn is what a Compactor needs of a turn.
type Turn struct {
	ID     string            // in events
	Notify func(text string) // sends a text to the chat at once
	Log    *zap.Logger
}

// A Run compacts the conversation of one turn.
type Run struct {
	*Compactor
	Turn
	conv *conversation.Conversation
}

// Run returns the Run of a turn that has the conversation c.
func (c *Compactor) Run(t Turn, conv *conversation.Conversation) *Run { return &Run{c, t, conv} }

// Add makes a compaction part of the conversation, which the turn commits.
func (r *Run) Add(ev agent.Compacted) error {
	if err := r.conv.Compacted(ev); err != nil {
		return err
	}
	r.Report(ev.Reason, false, ev.Compaction)
	return nil
}

// Report emits the event of a compaction that became part of the turn or failed.
func (r *Run) Report(reason string, failed bool, p agent.Compaction) {
	name := ""
	if e := r.conv.Engine.Engine; e != nil {
		name = e.Name()
	}
	r.Observe(observe.Compacted{Turn: r.ID, Engine: name, Reason: reason, Failed: failed, Before: p.Before, After: p.After})
}

// engine returns the context engine of the turn's session, created if necessary; nil
// if compaction is disabled or the engine cannot be created.
func (r *Run) engine(ctx context.Context) agent.Engine {
	if !r.Options.Enabled {
		return nil
	}
	if r.conv.Engine.Engine != nil {
		r.updateLimits()
		return r.conv.Engine.Engine
	}
	var state json.RawMessage
	var err error
	if !r.conv.IsNew() {
		if state, err = r.Store.Engine(ctx, r.conv.Record.ID); err != nil {
			r.Log.Error("cannot load context engine state", zap.Error(err))
			return nil
		}
	}
	newest := state
	if r.conv.Engine.Recorded != nil { // by an earlier run of the turn
		newest = r.conv.Engine.Recorded
	}
	e, err := r.Options.Engine(r.conv.Record, r.conv.Model, newest)
	if err != nil {
		r.Log.Error("cannot create context engine", zap.Error(err))
		return nil
	}
	r.conv.Engine.Engine, r.conv.Engine.Saved, r.conv.Engine.Limits = e, state, r.limits()
	return e
}

func (r *Run) limits() agent.Limits {
	return agent.Limits{Model: r.conv.Model.Model, Window: r.conv.Model.Window}
}

// updateLimits sets the limits of the current model on the engine, unless a
// compaction uses the engine.
func (r *Run) updateLimits() {
	now := r.limits()
	if now == r.conv.Engine.Limits || r.Passes.Get(r.conv.Record.ID) != nil {
		return
	}
	if l, ok := r.conv.Engine.Engine.(agent.Lifecycle); ok {
		l.Limits(now)
	}
	r.conv.Engine.Limits = now
}

// Window returns the context window of the run, after a compaction by
// hygiene if one is due, and texts for the user. resumed says that the turn has recorded
// steps. The window is nil if there is no
// engine, or a running compaction uses it.
func (r *Run) Window(ctx context.Context, resumed bool) (*agent.ContextWindow, []string) {
	e := r.engine(ctx)
	if e == nil {
		return nil, nil
	}
	w := r.newContextWindow(e)
	if resumed { // the recorded steps include a compaction that was due
		return w, nil
	}
	texts, busy := r.compactBeforeTurn(ctx, w)
	if busy {
		w.Engine = r.replaceEngine(ctx)
		if w.Engine == nil {
			return nil, texts
		}
	}
	return w, texts
}

// replaceEngine gives the session another engine while a compaction uses its own.
// It returns nil if it cannot be created.
func (r *Run) replaceEngine(ctx context.Context) agent.Engine {
	if p := r.Passes.Get(r.conv.Record.ID); p != nil && p.Engine == r.conv.Engine.Engine {
		r.Passes.HandOver(r.conv.Record.ID, p.Engine)
		r.conv.Engine.Engine = nil
	}
	return r.engine(ctx)
}

// newContextWindow returns the context window of the session as stored.
func (r *Run) newContextWindow(e agent.Engine) *agent.ContextWindow {
	window := r.conv.Model.Window
	return &agent.ContextWindow{
		Engine: e, Window: window, Limit: r.Options.MaxRequest(window), First: r.conv.Record.Start,
		Reported: r.conv.Record.PromptTokens, At: r.conv.Record.PromptMessages,
		Refresh: func(p prompt.Prefix) prompt.Prefix { return r.Options.Refresh(r.conv.Record, p) },
	}
}

// compactBeforeTurn compacts the session before the turn if hygiene decides so. If the
// session is above the limit and its summary is not finished in time, the compaction
// is made without a model. busy reports whether a compaction is still running, which a
// later turn adopts.
func (r *Run) compactBeforeTurn(ctx context.Context, w *agent.ContextWindow) (texts []string, busy bool) {
	current := agent.Turn{Prefix: r.conv.Prefix, Prefill: r.Prefill, Transcript: r.conv.Transcript}
	p := r.Passes.Get(r.conv.Record.ID)
	facts := hygiene.Facts{
		Reported: r.conv.Record.PromptTokens, Since: tokens.Since(r.conv.Transcript, min(r.conv.Record.PromptMessages, r.conv.Transcript.Len())),
		Window: r.conv.Model.Window, Messages: r.conv.Transcript.Len(), Busy: p != nil, CoolingDown: w.Engine.Status().Cooldown != "",
	}
	if facts.Reported == 0 {
		facts.Estimate = w.Size(&current)
	}
	d := hygiene.Decide(facts, r.Options.Settings)
	if p == nil && d.Compress {
		v := w.View(&current, "")
		v.Messages, v.Force = slices.Clone(v.Messages), d.Urgent
		p = r.Passes.Start(r.conv.Record.ID, r.conv.Transcript, w.Engine, v, agent.WhyHygiene)
		r.Log.Info("hygiene compaction started", zap.Int("tokens", d.Tokens), zap.Int("window", facts.Window), zap.String("reason", d.Reason))
	}
	if p == nil {
		return nil, false
	}
	tooLong := facts.Window > 0 && d.Tokens > w.Limit
	if !r.awaitCompaction(ctx, p, d.Urgent || tooLong && p.Reason == agent.WhyCompression) {
		if ctx.Err() != nil || !tooLong {
			return nil, true
		}
		p = r.compactWithoutModel(p, w, &current)
	}
	r.claimCompaction(p)
	w.Engine = r.conv.Engine.Engine
	return r.adoptCompaction(w, p, d), false
}

// compactWithoutModel ends p, unless it has just finished, and returns a compaction
// without a summary of a model in its place.
func (r *Run) compactWithoutModel(p *hygiene.Pass, w *agent.ContextWindow, current *agent.Turn) *hygiene.Pass {
	p.Cancel()
	if p.Err == nil {
		return p
	}
	r.claimCompaction(p)
	v := w.View(current, "")
	v.Messages, v.Force, v.WithoutModel = slices.Clone(v.Messages), true, true
	p = r.Passes.Start(r.conv.Record.ID, r.conv.Transcript, r.conv.Engine.Engine, v, agent.WhyHygiene)
	<-p.Done()
	return p
}

// awaitCompaction waits for p and reports whether it is finished. It waits for MaxWait,
// or, if urgent, without a limit and notifies the user after MaxWait.
func (r *Run) awaitCompaction(ctx context.Context, p *hygiene.Pass, urgent bool) bool {
	limit := time.NewTimer(r.Options.MaxWait)
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
			r.Notify(r.Printer.T("This conversation has become very long; I am summarising its older part before I answer."))
		}
	}
}

// adoptCompaction makes p part of the turn, unless it failed or the conversation has
// changed since. It returns texts for the user.
func (r *Run) adoptCompaction(w *agent.ContextWindow, p *hygiene.Pass, d hygiene.Decision) []string {
	switch {
	case errors.Is(p.Err, agent.ErrCoolingDown):
		return nil
	case p.Err != nil:
		r.Log.Warn("cannot compact session", zap.Error(p.Err))
		r.Report(p.Reason, true, p.Result)
		return []string{r.Printer.T("I could not summarise the older part of this conversation: %v. Nothing is lost; I try again later.", p.Err)}
	case !p.AppliesTo(r.conv.Record.Start, r.conv.Transcript):
		r.Log.Info("compaction ignored: the conversation has changed since")
		return nil
	}
	w.Ready, w.AdoptAt, w.Reason = &p.Result, len(p.View.Messages), p.Reason
	if after := p.Result.After; after >= hygiene.Urgent(r.conv.Model.Window) {
		r.Log.Warn("conversation is too long even after compaction", zap.Int("tokens", after), zap.Int("window", r.conv.Model.Window))
	}
	r.Passes.Adopted()
	text := r.Printer.T("I have summarised the older part of this conversation: about %d tokens became %d. Nothing is deleted.", d.Tokens, p.Result.After)
	return []string{text + r.Note(p.Result)}
}

// Note returns what the engine adds to the message about its compaction,
// with a leading space; "" if nothing.
func (r *Run) Note(p agent.Compaction) (text string) {
	if len(p.Sentences) == 0 && p.Explanation != "" {
		return " " + p.Explanation
	}
	for _, s := range p.Sentences {
		args := make([]any, len(s.Args))
		for i, a := range s.Args {
			args[i] = a
		}
		text += " " + r.Printer.T(s.English, args...)
	}
	return text
}

// claimCompaction makes the turn the owner of a finished compaction and of its
// engine, whose state includes the result. If the session got another engine in the
// meantime, that one stays unless the result can be adopted.
func (r *Run) claimCompaction(p *hygiene.Pass) {
	r.Passes.Remove(r.conv.Record.ID, p)
	unused := r.conv.Engine.Engine
	if unused != nil && unused != p.Engine && (p.Err != nil || !p.AppliesTo(r.conv.Record.Start, r.conv.Transcript)) {
		unused = p.Engine
	} else {
		r.conv.Engine.Engine = p.Engine
	}
	if l, ok := unused.(agent.Lifecycle); ok && unused != r.conv.Engine.Engine {
		l.End()
	}
	r.conv.Engine.Limits = agent.Limits{}
	r.updateLimits()
}

// Compress compacts the conversation as a user has asked; the summary keeps what is about
// focus. It returns the text for the user, and the compaction if one was made, for Add.
func (r *Run) Compress(ctx context.Context, focus string) (text string, made *agent.Compacted, err error) {
	if r.conv.IsNew() || r.conv.Transcript.Len() == 0 {
		return r.Printer.T("There is nothing to make smaller yet."), nil, nil
	}
	e := r.engine(ctx)
	switch {
	case e == nil:
		return r.Printer.T("Compression is switched off (`compression.enabled`)."), nil, nil
	case r.hasOtherCompaction(focus):
		return r.Printer.T("This conversation is being summarised already; the next answer comes with it."), nil, nil
	}
	w := r.newContextWindow(e)
	pass, err := r.requestCompaction(ctx, w, focus)
	if err != nil {
		return "", nil, err
	}
	p, err := pass.Result, pass.Err
	switch {
	case errors.Is(err, agent.ErrCoolingDown):
		return r.Printer.T("There is nothing that could be made smaller."), nil, nil
	case err != nil:
		r.Report(agent.WhyCompression, true, p)
		r.Log.Warn("cannot compact session", zap.Error(err))
		return r.Printer.T("I could not summarise it: %v. Everything is as it was.", err), nil, nil
	}
	old := r.conv.Transcript.Since(0)
	r.conv.Transcript.Replace(append(p.Messages[:len(p.Messages):len(p.Messages)], old[len(pass.View.Messages):]...))
	r.conv.Record.PendingBreak = agent.WhyCompression
	r.Passes.Adopted()
	text = r.Printer.T("Done: about %d tokens became %d. %d messages are archived; nothing is deleted.", p.Before, p.After, p.To-p.From) + r.Note(p)
	return text, &agent.Compacted{Compaction: p, Length: len(old), Replaced: old, Prefix: w.WithPromptNote(r.conv.Prefix, p), Reason: agent.WhyCompression}, nil
}

// hasOtherCompaction reports whether a compaction of the session is pending that
// /compress with this focus cannot use.
func (r *Run) hasOtherCompaction(focus string) bool {
	p := r.Passes.Get(r.conv.Record.ID)
	return p != nil && (p.Reason != agent.WhyCompression || p.View.Focus != focus)
}

// requestCompaction returns the compaction for /compress once it is finished. It runs
// outside of the turn: if a newer message interrupts the turn, the compaction
// continues and the resumed turn uses it, so that it is not paid for twice. Any other
// cancellation also cancels the compaction.
func (r *Run) requestCompaction(ctx context.Context, w *agent.ContextWindow, focus string) (*hygiene.Pass, error) {
	for {
		p := r.Passes.Get(r.conv.Record.ID)
		started := p == nil
		if started {
			if l, ok := w.Engine.(agent.Lifecycle); ok {
				l.Reset()
			}
			v := w.View(&agent.Turn{Prefix: r.conv.Prefix, Prefill: r.Prefill, Transcript: r.conv.Transcript}, focus)
			v.Messages, v.Force = slices.Clone(v.Messages), true
			p = r.Passes.Start(r.conv.Record.ID, r.conv.Transcript, w.Engine, v, agent.WhyCompression)
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
			var newer active.SupersededError
			if !errors.As(context.Cause(ctx), &newer) {
				p.Cancel()
				r.Passes.Remove(r.conv.Record.ID, p)
			}
			return nil, context.Cause(ctx)
		}
		r.claimCompaction(p)
		w.Engine = r.conv.Engine.Engine
		if started || p.Err != nil || p.AppliesTo(r.conv.Record.Start, r.conv.Transcript) {
			return p, nil
		}
	}
}
