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

// A ContextWindow is what a run needs to keep its context within what the model can
// take.
type ContextWindow struct {
	Engine Engine
	// First is the number, in the whole transcript of the session, of the first
	// active message.
	First int
	// Reported is how many tokens the provider counted for the prompt, the tools
	// and the first At messages; 0 if that is not known.
	Reported, At int
	// Ready is a pass that was made before the turn, of the messages that the
	// transcript had then; nil for none. Why is its reason.
	Ready  *Compaction
	Reason string
	// AdoptAt is how many messages those were.
	AdoptAt int
	// Refresh, if not nil, makes a prefix anew that breaks anyway: with memories
	// as they are now.
	Refresh func(prompt.Prefix) prompt.Prefix
}

// WithPromptNote is p with what a pass adds to it.
func (w *ContextWindow) WithPromptNote(p prompt.Prefix, pass Compaction) prompt.Prefix {
	if pass.PromptNote != "" {
		p = p.With(prompt.LayerNote, pass.PromptNote)
	}
	if w != nil && w.Refresh != nil {
		p = w.Refresh(p)
	}
	return p
}

// Reasons for a compaction, as the ledger knows them.
const (
	WhyCompression = "compression"
	WhyHygiene     = "hygiene"
)

// maxShorter is how often a request that is too long is made shorter and sent
// again.
const maxShorter = 3

// Size returns the best known size, in tokens, of what a call would send: what
// the provider reported and the estimate of what came since, or the estimate of
// all of it.
func (w *ContextWindow) Size(t *Turn) int {
	if w.Reported > 0 && w.At <= t.Transcript.Len() {
		return w.Reported + tokens.Since(t.Transcript, w.At)
	}
	return t.fixed() + tokens.Transcript(t.Transcript, t.Transcript.Len())
}

// fixed is the estimate of what stands beside the transcript.
func (t *Turn) fixed() int {
	q := llm.Request{
		System: t.Prefix.System(), Tools: t.Prefix.Tools(), Prefill: t.Prefill,
		Overlay: t.Overlay.Tail.String(), SystemOverlay: t.Overlay.System,
	}
	return tokens.Request(&q) + tokens.Text(t.Overlay.Turn.String())
}

// View is the context as an engine looks at it.
func (w *ContextWindow) View(t *Turn, focus string) ContextView {
	return ContextView{
		Messages: t.Transcript.Since(0), First: w.First, FixedTokens: t.fixed(), Tokens: w.Size(t), Focus: focus,
	}
}

// adopt makes the pass true that was made before the turn.
func (r *run) adopt() error {
	w := r.t.ContextWindow
	if w == nil || w.Ready == nil || len(r.t.Steps) > 0 {
		return nil
	}
	tr := r.t.Transcript
	if w.AdoptAt > tr.Len() {
		return fmt.Errorf("%w: a compaction of messages that are not there", ErrSteps)
	}
	p := *w.Ready
	p.Messages = append(slices.Clone(p.Messages), tr.Since(w.AdoptAt)...)
	return r.recordPass(p, w.Reason)
}

// recordPass has a pass kept, and makes it true.
func (r *run) recordPass(p Compaction, why string) error {
	old := r.t.Transcript.Since(0)
	s := Step{Kind: StepCompaction, Compaction: &p, Length: len(old), Reason: why}
	if err := r.record(s); err != nil {
		return err
	}
	return r.emit(s.compacted(old, r.t.Prefix))
}

// compacted is the event that tells of the compaction s.
func (s Step) compacted(old []llm.Message, p prompt.Prefix) Compacted {
	return Compacted{Compaction: *s.Compaction, Length: s.Length, Replaced: old, Prefix: p, Reason: s.Reason}
}

// applyPass puts the messages of a pass in the place of those it was made of.
func (r *run) applyPass(s Step) error {
	tr := r.t.Transcript
	if s.Compaction == nil || s.Length != tr.Len() || r.batch != nil || s.Compaction.From < 0 || s.Compaction.To < s.Compaction.From || s.Compaction.To > tr.Len() {
		return fmt.Errorf("%w: a compaction out of place", ErrSteps)
	}
	before := tr.Len()
	tr.Replace(slices.Clone(s.Compaction.Messages))
	r.began = max(0, r.began+tr.Len()-before)
	if newest := newestUser(tr); r.began < newest {
		r.began = newest
	}
	if w := r.t.ContextWindow; w != nil {
		w.First += before // the new list stands behind the old one
		w.Reported, w.At = 0, 0
	}
	r.t.Prefix = r.t.ContextWindow.WithPromptNote(r.t.Prefix, *s.Compaction)
	return nil
}

// newestUser is the index of the newest message with words of the user.
func newestUser(tr *llm.Transcript) int {
	for i := tr.Len() - 1; i >= 0; i-- {
		if m := tr.At(i); m.Role == llm.User && slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Type != llm.ToolResult }) {
			return i
		}
	}
	return 0
}

// fit makes the context smaller if its engine says so. That it cannot is no
// reason not to ask the model.
func (r *run) fit(ctx context.Context) error {
	w := r.t.ContextWindow
	if w == nil {
		return nil
	}
	size := w.Size(&r.t)
	due := w.Engine.ShouldCompress(size)
	if p, ok := w.Engine.(Preflighter); ok && !due && r.calls == 0 {
		due = p.Preflight(r.t.Transcript.Since(0))
	}
	if !due {
		return nil
	}
	v := w.View(&r.t, "")
	err := r.compact(ctx, v)
	switch {
	case r.stopped || ctx.Err() != nil:
		return err
	case errors.Is(err, ErrCoolingDown):
		return nil
	case err != nil:
		return r.emit(Notice{Kind: ContextFull, Err: err})
	}
	return nil
}

// compact has the engine make a pass, and makes it true.
func (r *run) compact(ctx context.Context, v ContextView) error {
	p, err := r.a.pass(ctx, r.t.ContextWindow.Engine, v)
	if err != nil {
		return err
	}
	return r.recordPass(p, WhyCompression)
}

// Compress has an engine make a pass of v. It is the wall at which a panic of
// the engine ends.
func (a *Agent) Compress(ctx context.Context, e Engine, v ContextView) (Compaction, error) {
	return a.pass(ctx, e, v)
}

func (a *Agent) pass(ctx context.Context, e Engine, v ContextView) (p Compaction, err error) {
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

// shorten makes a request smaller that the provider refused as too long, and
// reports whether it is to be sent again.
func (r *run) shorten(ctx context.Context, e *llm.Error, tries int) (bool, error) {
	w := r.t.ContextWindow
	if w == nil || tries >= maxShorter {
		return false, nil
	}
	if e.Limit > 0 {
		if l, ok := w.Engine.(Lifecycle); ok {
			l.Limits(Limits{Model: r.t.Model, Window: e.Limit})
		}
		if err := r.emit(ContextLengthLearned{Provider: e.Provider, Model: r.t.Model, Window: e.Limit}); err != nil {
			return false, err
		}
	}
	v := w.View(&r.t, "")
	v.Force = true
	err := r.compact(ctx, v)
	if err != nil && ctx.Err() == nil && !r.stopped {
		if err := r.emit(Notice{Kind: ContextFull, Err: err}); err != nil {
			return false, err
		}
		v.WithoutModel = true
		err = r.compact(ctx, v)
	}
	if err != nil && (r.stopped || ctx.Err() != nil) {
		return false, err
	}
	return err == nil, nil
}
