package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
)

// A ContextWindow keeps the context of a run within the model's context length.
type ContextWindow struct {
	Engine Engine
	// Window is the context length of the model in tokens, and Limit the number
	// of tokens that a request may have; 0: no limit.
	Window, Limit int
	// First is the number of the first active message within the whole
	// transcript of the session.
	First int
	// Reported is the number of tokens that the provider counted for the
	// prompt, the tools and the first At messages; 0 if unknown.
	Reported, At int
	// Ready is a compaction that was made before the turn, of the messages that
	// the transcript had then; nil for none. Reason is its reason.
	Ready  *Compaction
	Reason string
	// AdoptAt is the number of messages that Ready was made from.
	AdoptAt int
	// Refresh, if not nil, rebuilds a prefix that breaks anyway, with the
	// current memories.
	Refresh func(prompt.Prefix) prompt.Prefix
}

// WithPromptNote returns p with the prompt note of a compaction, refreshed by
// w.Refresh.
func (w *ContextWindow) WithPromptNote(p prompt.Prefix, c Compaction) prompt.Prefix {
	if c.PromptNote != "" {
		p = p.With(prompt.LayerNote, c.PromptNote)
	}
	if w != nil && w.Refresh != nil {
		p = w.Refresh(p)
	}
	return p
}

// Reasons for a compaction, as recorded in the ledger.
const (
	WhyCompression = "compression"
	WhyHygiene     = "hygiene"
)

// maxOverflowRetries is how often a request that is too long is shortened and
// sent again.
const maxOverflowRetries = 3

// Size returns the best known size, in tokens, of the next call: what the
// provider reported plus an estimate of the messages since, or an estimate of
// the whole request. If the provider counted more tokens than the estimate, up
// to maxRatio times as many, it is taken to count the messages since alike.
func (w *ContextWindow) Size(t *Turn) int {
	if w.Reported == 0 || w.At > t.Transcript.Len() {
		return t.estimatedTokens()
	}
	since := tokens.Since(t.Transcript, w.At)
	if estimate := t.fixedTokens() + tokens.Transcript(t.Transcript, w.At); w.Reported > estimate {
		since = min(since*w.Reported/max(estimate, 1), since*maxRatio)
	}
	return w.Reported + since
}

// maxRatio limits how far the count of a provider raises the estimate of new
// messages. JSON full of numbers has 1.7 times the estimate.
const maxRatio = 2

// estimatedTokens returns the estimated tokens of the next request.
func (t *Turn) estimatedTokens() int {
	return t.fixedTokens() + tokens.Transcript(t.Transcript, t.Transcript.Len())
}

// fixedTokens returns the estimated tokens of everything but the transcript.
func (t *Turn) fixedTokens() int {
	q := llm.Request{
		System: t.Prefix.System(), Tools: t.frozenTools(), Prefill: t.Prefill,
		Overlay: t.Overlay.Tail.String(), SystemOverlay: t.Overlay.System,
	}
	return tokens.Request(&q) + tokens.Text(t.Overlay.Turn.String())
}

// View returns the context in the form that an engine reads. If the provider
// counts more tokens than the estimate, the limit of the view is lower by the
// same factor.
func (w *ContextWindow) View(t *Turn, focus string) ContextView {
	v := ContextView{
		Messages: t.Transcript.Since(0), First: w.First, FixedTokens: t.fixedTokens(), Tokens: w.Size(t), Focus: focus, Limit: w.Limit,
	}
	if estimate := t.estimatedTokens(); v.Tokens > estimate {
		v.Limit = v.Limit * estimate / v.Tokens
	}
	return v
}

// adoptCompaction applies the compaction that was made before the turn.
func (r *run) adoptCompaction() error {
	w := r.t.ContextWindow
	if w == nil || w.Ready == nil || len(r.t.Steps) > 0 {
		return nil
	}
	tr := r.t.Transcript
	if w.AdoptAt > tr.Len() {
		return fmt.Errorf("%w: compaction of missing messages", ErrSteps)
	}
	p := *w.Ready
	p.Messages = append(slices.Clone(p.Messages), tr.Since(w.AdoptAt)...)
	return r.recordCompaction(p, w.Reason)
}

func (r *run) recordCompaction(p Compaction, reason string) error {
	old := r.t.Transcript.Since(0)
	s := Step{Kind: StepCompaction, Compaction: &p, Length: len(old), Reason: reason}
	if err := r.record(s); err != nil {
		return err
	}
	return r.emit(s.compactedEvent(old, r.t.Prefix))
}

func (s Step) compactedEvent(old []llm.Message, p prompt.Prefix) Compacted {
	return Compacted{Compaction: *s.Compaction, Length: s.Length, Replaced: old, Prefix: p, Reason: s.Reason}
}

// applyCompaction replaces the transcript with the messages of a compaction.
func (r *run) applyCompaction(s Step) error {
	tr := r.t.Transcript
	if s.Compaction == nil || s.Length != tr.Len() || r.batch != nil || s.Compaction.From < 0 || s.Compaction.To < s.Compaction.From || s.Compaction.To > tr.Len() {
		return fmt.Errorf("%w: unexpected compaction", ErrSteps)
	}
	before := tr.Len()
	if w := r.t.ContextWindow; w != nil {
		r.replaced = append(r.replaced, replacedList{w.First, tr.Since(0)})
	}
	tr.Replace(slices.Clone(s.Compaction.Messages))
	r.turnStart = max(0, r.turnStart+tr.Len()-before)
	if newest := newestUserMessage(tr); r.turnStart < newest {
		r.turnStart = newest
	}
	if w := r.t.ContextWindow; w != nil {
		w.First += before // the new list follows the old one
		w.Reported, w.At = 0, 0
	}
	r.t.Prefix = r.t.ContextWindow.WithPromptNote(r.t.Prefix, *s.Compaction)
	return nil
}

// newestUserMessage returns the index of the newest message that the user
// wrote.
func newestUserMessage(tr *llm.Transcript) int {
	for i := tr.Len() - 1; i >= 0; i-- {
		if m := tr.At(i); m.Role == llm.User && slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Type != llm.ToolResult }) {
			return i
		}
	}
	return 0
}

// fitContext compacts the context if its engine says that this is due, or if
// the request is above the limit. A failure does not prevent the model call.
func (r *run) fitContext(ctx context.Context) error {
	w := r.t.ContextWindow
	if w == nil {
		return nil
	}
	size := w.Size(&r.t)
	due := w.Engine.ShouldCompress(size) || w.Limit > 0 && size > w.Limit
	if p, ok := w.Engine.(Preflighter); ok && !due && r.calls == 0 {
		due = p.Preflight(r.t.Transcript.Since(0))
	}
	if !due {
		return nil
	}
	_, err := r.compact(ctx, w.View(&r.t, ""))
	return err
}

// compact lets the engine compact v. If the request is then still above the
// limit of v, because no summary could be obtained or it does not suffice, the
// context is compacted without a model. done reports whether there was a
// compaction. The error is that of an interrupted run; other failures become a
// Notice.
func (r *run) compact(ctx context.Context, v ContextView) (done bool, err error) {
	err = r.compactOnce(ctx, v)
	done = err == nil
	again := r.isAbove(v.Limit)
	if v.Limit == 0 {
		again = v.Force && !done
	}
	if again && !r.stopped && ctx.Err() == nil {
		if err != nil && !errors.Is(err, ErrCoolingDown) {
			if err := r.emit(Notice{Kind: NoSummary, Err: err}); err != nil {
				return done, err
			}
		}
		last := r.t.ContextWindow.View(&r.t, v.Focus)
		last.Limit, last.Force, last.WithoutModel = v.Limit, true, true
		err = r.compactOnce(ctx, last)
		done = done || err == nil
	}
	switch {
	case r.stopped || ctx.Err() != nil:
		return done, err
	case err == nil || errors.Is(err, ErrCoolingDown):
		return done, nil
	}
	return done, r.emit(Notice{Kind: ContextFull, Err: err})
}

// isAbove reports whether the estimate for the next request is above limit; 0
// is no limit.
func (r *run) isAbove(limit int) bool {
	return limit > 0 && r.t.estimatedTokens() > limit
}

// compactOnce lets the engine compact v and applies the result.
func (r *run) compactOnce(ctx context.Context, v ContextView) error {
	p, err := r.a.runEngine(ctx, r.t.ContextWindow.Engine, v)
	if err != nil {
		return err
	}
	return r.recordCompaction(p, WhyCompression)
}

// Compress lets engine e compact v. A panic of the engine becomes an error.
func (a *Agent) Compress(ctx context.Context, e Engine, v ContextView) (Compaction, error) {
	return a.runEngine(ctx, e, v)
}

func (a *Agent) runEngine(ctx context.Context, e Engine, v ContextView) (p Compaction, err error) {
	defer func() {
		if value := recover(); value != nil {
			a.onPanic("context engine "+e.Name(), value, debug.Stack())
			err = fmt.Errorf("the context engine %s failed inside", e.Name())
		}
	}()
	if p, err = e.Compress(ctx, v); err != nil {
		return Compaction{}, err
	}
	if err := llm.ValidateMessages(p.Messages); err != nil {
		return Compaction{}, fmt.Errorf("the context engine %s made a list that no provider would take: %w", e.Name(), err)
	}
	if p.From < 0 || p.To < p.From || p.To > len(v.Messages) {
		return Compaction{}, fmt.Errorf("the context engine %s archived messages that are not there", e.Name())
	}
	return p, nil
}

// overflowPercent is the size, in percent of the estimate, to which a request
// that the provider rejects as too long is shortened.
const overflowPercent = 80

// shortenContext compacts the context after the provider rejected a request as
// too long, and reports whether the request is to be sent again.
func (r *run) shortenContext(ctx context.Context, e *llm.Error, attempts int) (bool, error) {
	w := r.t.ContextWindow
	if w == nil || attempts >= maxOverflowRetries {
		return false, nil
	}
	if e.Limit > 0 {
		if l, ok := w.Engine.(Lifecycle); ok {
			l.Limits(Limits{Model: r.t.Model, Window: e.Limit})
		}
		if w.Window > e.Limit {
			w.Limit, w.Window = w.Limit*e.Limit/w.Window, e.Limit
		}
		if err := r.emit(ContextLengthLearned{Provider: e.Provider, Model: r.t.Model, Window: e.Limit}); err != nil {
			return false, err
		}
	}
	v := w.View(&r.t, "")
	v.Force = true
	if v.Limit > 0 { // the provider counts more than the estimate
		v.Limit = min(v.Limit, r.t.estimatedTokens()*overflowPercent/100)
	}
	return r.compact(ctx, v)
}
