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
	s, err := t.r.use(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil:
		t.cut(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.r.sole.leave(s.rec.ID)
	text, err := t.shrink(ctx, s, focus)
	if err != nil {
		if ctx.Err() != nil {
			t.cut(ctx, context.Cause(ctx))
			return
		}
		t.fail(ctx, err)
		return
	}
	f := t.draft()
	f.Purpose = chat.PurposeAnswer
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: t.r.o.Delivery.Render(text, f)})
}

// shrink has a pass made of s and returns what is to be said of it. If one was
// made, the turn holds s, and its commit makes the pass true.
func (t *turn) shrink(ctx context.Context, s *conversation, focus string) (string, error) {
	if s.open != nil || s.tr.Len() == 0 {
		return t.T("There is nothing to make smaller yet."), nil
	}
	s.model, _ = t.r.choose(s.rec.Settings)
	t.s, t.stored = s, s.tr.Len()
	e := t.engine(ctx)
	switch {
	case e == nil:
		t.s = nil
		return t.T("Compression is switched off (`compression.enabled`)."), nil
	case t.others(focus):
		t.s = nil
		return t.T("This conversation is being summarised already; the next answer comes with it."), nil
	}
	w := t.fresh(e)
	made, err := t.asked(ctx, w, focus)
	if err != nil {
		t.s = nil
		return "", err
	}
	p, err := made.pass, made.err
	switch {
	case errors.Is(err, agent.ErrNotNow):
		t.s = nil
		return t.T("There is nothing that could be made smaller."), nil
	case err != nil:
		t.shrunk(agent.WhyCompression, true, p)
		t.s = nil
		t.log.Warn("compress", zap.Error(err))
		return t.T("I could not summarise it (%v). Everything is as it was.", err), nil
	}
	old := s.tr.Since(0)
	s.tr.Replace(append(p.Messages[:len(p.Messages):len(p.Messages)], old[len(made.view.Messages):]...))
	if err := t.compacted(agent.Compacted{Pass: p, Length: len(old), Replaced: old, Prefix: w.Noted(s.prefix, p), Why: agent.WhyCompression}); err != nil {
		return "", err
	}
	s.rec.PendingBreak = agent.WhyCompression
	t.r.cleaning.count(func(n *Cleanings) { n.Adopted++ })
	return t.T("Done: about %d tokens became %d. %d messages are archived; nothing is deleted.", p.Before, p.After, p.To-p.From) + t.told(p), nil
}

// others reports whether a pass is under way that is not what is asked for now.
func (t *turn) others(focus string) bool {
	p := t.r.cleaning.of(t.s.rec.ID)
	return p != nil && (p.why != agent.WhyCompression || p.view.Focus != focus)
}

// asked returns the pass that a person asks for, once it is made. It is made
// beside the turn: one that a newer message interrupts comes back to it, and does
// not pay twice. A stop ends it.
func (t *turn) asked(ctx context.Context, w *agent.Window, focus string) (*cleaningPass, error) {
	for {
		p := t.r.cleaning.of(t.s.rec.ID)
		begun := p == nil
		if begun {
			if l, ok := w.Engine.(agent.Lifecycle); ok {
				l.Reset()
			}
			v := w.View(&agent.Turn{Prefix: t.s.prefix, Prefill: t.r.o.Prefill, Transcript: t.s.tr}, focus)
			v.Messages, v.Force = slices.Clone(v.Messages), true
			p = t.begun(w.Engine, v, agent.WhyCompression)
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			var newer Newer
			if !errors.As(context.Cause(ctx), &newer) {
				p.cancel()
				<-p.done
				t.r.cleaning.drop(t.s.rec.ID, p)
			}
			return nil, context.Cause(ctx)
		}
		t.take(p)
		w.Engine = p.engine
		if begun || p.err != nil || p.fits(t.s) {
			return p, nil
		}
	}
}
