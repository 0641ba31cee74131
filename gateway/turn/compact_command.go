package turn

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// compress makes the conversation smaller because a person asks for it.
func (t *turn) compress(ctx context.Context, focus string) {
	s, err := t.runner.lockSession(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil:
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.locks.release(s.record.ID)
	text, err := t.compactNow(ctx, s, focus)
	if err != nil {
		if ctx.Err() != nil {
			t.endInterrupted(ctx, context.Cause(ctx))
			return
		}
		t.fail(ctx, err)
		return
	}
	f := t.draft()
	f.Purpose = chat.PurposeAnswer
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: t.runner.opts.Delivery.Render(text, f)})
}

// compactNow has a pass made of s and returns what is to be said of it. If one was
// made, the turn holds s, and its commit makes the pass true.
func (t *turn) compactNow(ctx context.Context, s *sessionState, focus string) (string, error) {
	if s.created != nil || s.transcript.Len() == 0 {
		return t.T("There is nothing to make smaller yet."), nil
	}
	s.model, _ = t.runner.choose(s.record.Settings)
	t.session, t.stored = s, s.transcript.Len()
	e := t.engine(ctx)
	switch {
	case e == nil:
		t.session = nil
		return t.T("Compression is switched off (`compression.enabled`)."), nil
	case t.others(focus):
		t.session = nil
		return t.T("This conversation is being summarised already; the next answer comes with it."), nil
	}
	w := t.fresh(e)
	made, err := t.requestedCompaction(ctx, w, focus)
	if err != nil {
		t.session = nil
		return "", err
	}
	p, err := made.pass, made.err
	switch {
	case errors.Is(err, agent.ErrCoolingDown):
		t.session = nil
		return t.T("There is nothing that could be made smaller."), nil
	case err != nil:
		t.shrunk(agent.WhyCompression, true, p)
		t.session = nil
		t.log.Warn("compress", zap.Error(err))
		return t.T("I could not summarise it (%v). Everything is as it was.", err), nil
	}
	old := s.transcript.Since(0)
	s.transcript.Replace(append(p.Messages[:len(p.Messages):len(p.Messages)], old[len(made.view.Messages):]...))
	if err := t.compacted(agent.Compacted{Compaction: p, Length: len(old), Replaced: old, Prefix: w.WithPromptNote(s.prefix, p), Reason: agent.WhyCompression}); err != nil {
		return "", err
	}
	s.record.PendingBreak = agent.WhyCompression
	t.runner.compactions.count(func(n *CompactionStats) { n.Adopted++ })
	return t.T("Done: about %d tokens became %d. %d messages are archived; nothing is deleted.", p.Before, p.After, p.To-p.From) + t.told(p), nil
}

// others reports whether a pass is under way that is not what is asked for now.
func (t *turn) others(focus string) bool {
	p := t.runner.compactions.of(t.session.record.ID)
	return p != nil && (p.reason != agent.WhyCompression || p.view.Focus != focus)
}

// requestedCompaction returns the pass that a person asks for, once it is made. It is made
// beside the turn: one that a newer message interrupts comes back to it, and does
// not pay twice. A stop ends it.
func (t *turn) requestedCompaction(ctx context.Context, w *agent.ContextWindow, focus string) (*backgroundCompaction, error) {
	for {
		p := t.runner.compactions.of(t.session.record.ID)
		begun := p == nil
		if begun {
			if l, ok := w.Engine.(agent.Lifecycle); ok {
				l.Reset()
			}
			v := w.View(&agent.Turn{Prefix: t.session.prefix, Prefill: t.runner.opts.Prefill, Transcript: t.session.transcript}, focus)
			v.Messages, v.Force = slices.Clone(v.Messages), true
			p = t.startCompaction(w.Engine, v, agent.WhyCompression)
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			var newer SupersededError
			if !errors.As(context.Cause(ctx), &newer) {
				p.cancel()
				<-p.done
				t.runner.compactions.drop(t.session.record.ID, p)
			}
			return nil, context.Cause(ctx)
		}
		t.take(p)
		w.Engine = p.engine
		if begun || p.err != nil || p.fits(t.session) {
			return p, nil
		}
	}
}
