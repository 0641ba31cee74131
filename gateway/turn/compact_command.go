package turn

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/inbox"
	"hermesd/hygiene"
)

// compressSession runs the command /compress.
func (t *turn) compressSession(ctx context.Context, focus string) {
	s, err := t.runner.parts.Sessions.Use(ctx, t.first(), false)
	switch {
	case err != nil && ctx.Err() != nil:
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.parts.Sessions.Release(s)
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
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: t.runner.parts.Chat.Delivery.Render(text, f)})
}

// compactNow compacts s and returns the text for the user. If a compaction was made,
// s becomes the session of the turn, whose commit stores the compaction.
func (t *turn) compactNow(ctx context.Context, s *conversation.Conversation, focus string) (string, error) {
	if s.IsNew() || s.Transcript.Len() == 0 {
		return t.T("There is nothing to make smaller yet."), nil
	}
	s.Model, _ = t.runner.chooseModel(s.Record.Settings)
	t.session = s
	e := t.engine(ctx)
	switch {
	case e == nil:
		t.session = nil
		return t.T("Compression is switched off (`compression.enabled`)."), nil
	case t.hasOtherCompaction(focus):
		t.session = nil
		return t.T("This conversation is being summarised already; the next answer comes with it."), nil
	}
	w := t.newContextWindow(e)
	compaction, err := t.requestCompaction(ctx, w, focus)
	if err != nil {
		t.session = nil
		return "", err
	}
	p, err := compaction.Result, compaction.Err
	switch {
	case errors.Is(err, agent.ErrCoolingDown):
		t.session = nil
		return t.T("There is nothing that could be made smaller."), nil
	case err != nil:
		t.reportCompaction(agent.WhyCompression, true, p)
		t.session = nil
		t.log.Warn("cannot compact session", zap.Error(err))
		return t.T("I could not summarise it: %v. Everything is as it was.", err), nil
	}
	old := s.Transcript.Since(0)
	s.Transcript.Replace(append(p.Messages[:len(p.Messages):len(p.Messages)], old[len(compaction.View.Messages):]...))
	if err := t.recordCompaction(agent.Compacted{Compaction: p, Length: len(old), Replaced: old, Prefix: w.WithPromptNote(s.Prefix, p), Reason: agent.WhyCompression}); err != nil {
		return "", err
	}
	s.Record.PendingBreak = agent.WhyCompression
	t.runner.parts.Sessions.Passes.Adopted()
	return t.T("Done: about %d tokens became %d. %d messages are archived; nothing is deleted.", p.Before, p.After, p.To-p.From) + t.compactionNote(p), nil
}

// hasOtherCompaction reports whether a compaction of the session is pending that
// /compress with this focus cannot use.
func (t *turn) hasOtherCompaction(focus string) bool {
	p := t.runner.parts.Sessions.Passes.Get(t.session.Record.ID)
	return p != nil && (p.Reason != agent.WhyCompression || p.View.Focus != focus)
}

// requestCompaction returns the compaction for /compress once it is finished. It runs
// outside of the turn: if a newer message interrupts the turn, the compaction
// continues and the resumed turn uses it, so that it is not paid for twice. Any other
// cancellation also cancels the compaction.
func (t *turn) requestCompaction(ctx context.Context, w *agent.ContextWindow, focus string) (*hygiene.Pass, error) {
	for {
		p := t.runner.parts.Sessions.Passes.Get(t.session.Record.ID)
		started := p == nil
		if started {
			if l, ok := w.Engine.(agent.Lifecycle); ok {
				l.Reset()
			}
			v := w.View(&agent.Turn{Prefix: t.session.Prefix, Prefill: t.runner.parts.Settings.Prefill, Transcript: t.session.Transcript}, focus)
			v.Messages, v.Force = slices.Clone(v.Messages), true
			p = t.runner.parts.Sessions.Passes.Start(t.session.Record.ID, t.session.Transcript, w.Engine, v, agent.WhyCompression)
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
			var newer active.SupersededError
			if !errors.As(context.Cause(ctx), &newer) {
				p.Cancel()
				t.runner.parts.Sessions.Passes.Remove(t.session.Record.ID, p)
			}
			return nil, context.Cause(ctx)
		}
		t.claimCompaction(p)
		w.Engine = t.session.Engine.Engine
		if started || p.Err != nil || p.AppliesTo(t.session.Record.Start, t.session.Transcript) {
			return p, nil
		}
	}
}
