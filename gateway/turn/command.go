package turn

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// runCommand runs the command in the claim's only entry. The entry is committed
// before the effects of the command are applied, so that it cannot run twice. The
// cancellation of cancelable, by a later message, only interrupts a compaction.
func (t *turn) runCommand(cancelable context.Context) {
	ctx := context.WithoutCancel(cancelable)
	e := t.first()
	name, args, _ := command.Parse(e.Inbound.Text)
	rec, _, err := t.runner.parts.Store.Session(ctx, e.Session)
	if err != nil {
		t.fail(ctx, fmt.Errorf("load session %s: %w", e.Session, err))
		return
	}
	call := command.Call{Name: name, Args: args, Inbound: e.Inbound, Principal: e.Grant.Principal(), Key: e.Session, Session: rec, Shared: t.runner.parts.Sessions.Options.Policy.Shared(e.Inbound.Address), Allowed: t.runner.parts.Work.Allowed(e.Inbound.Address), Printer: t.runner.parts.Settings.Printer}
	res, err := t.runner.parts.Work.Commands.Run(ctx, call)
	if err != nil {
		t.fail(ctx, fmt.Errorf("/%s: %w", name, err))
		return
	}
	switch {
	case res.Compress:
		t.compressSession(cancelable, res.Focus)
		return
	case res.Undo > 0:
		t.undoExchanges(ctx, res)
		return
	}
	if res.Branch {
		if res.Text, err = t.branch(ctx, rec, res.Title); err != nil {
			t.fail(ctx, fmt.Errorf("/%s: %w", name, err))
			return
		}
	}
	m := inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, SetCurrent: currentSession(e.Session, res.Resume)}
	if res.Settings != nil || res.Rebuild != "" {
		more, err := t.applySettings(ctx, &m, rec, res)
		if err != nil {
			t.fail(ctx, fmt.Errorf("/%s: %w", name, err))
			return
		}
		res.Text = strings.TrimSpace(res.Text + "\n" + more)
	}
	m.Rows = t.reply.Answer(res.Text)
	if n := len(m.Rows); n > 0 {
		m.Rows[n-1].Msg.Buttons = res.Buttons
	}
	if res.Stop && !res.KeepWaiting {
		m.Cancel, m.CancelReason = []inbox.Lane{inbox.LaneOf(e.Session)}, "/"+name
	}
	if res.Open {
		s, err := t.runner.parts.Sessions.New(e, res.Title)
		if err != nil {
			t.fail(ctx, err)
			return
		}
		m.Create, m.Session = s.Creation(), session.Record{}
	}
	if t.commit(ctx, m) { // else the command runs again, here or in another process
		t.applyCommandResult(ctx, res, rec)
	}
}

// currentSession returns the change that makes id the current session of k, nil if id
// is "".
func currentSession(k session.Key, id session.ID) map[session.Key]session.ID {
	if id == "" {
		return nil
	}
	return map[session.Key]session.ID{k: id}
}

// applyCommandResult applies the effects of a command whose entry is committed.
func (t *turn) applyCommandResult(ctx context.Context, res command.Result, rec session.Record) {
	e := t.first()
	name, _, _ := command.Parse(e.Inbound.Text)
	if res.Stop && t.runner.stop(inbox.LaneOf(e.Session), e.ID, name) {
		t.log.Info("run stopped", zap.String("by", e.Grant.Principal().ID))
	}
	if res.AfterCommit != nil {
		res.AfterCommit()
	}
	if res.Forget {
		text := t.runner.deleteSession(ctx, rec.ID)
		if _, err := t.reply.Delivery.Enqueue(context.WithoutCancel(ctx), t.reply.Answer(text)...); err != nil {
			t.log.Error("cannot send deletion notice", zap.Error(err))
		}
	}
}
