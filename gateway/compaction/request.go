package compaction

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/gateway/active"
	"hermesd/hygiene"
)

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
