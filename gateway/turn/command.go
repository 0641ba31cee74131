package turn

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// command runs the command in the claim's only entry. It is marked done before
// what it stops is stopped, so it can never be run twice. A message behind it cuts
// nothing of it short but a compaction.
func (t *turn) command(cut context.Context) {
	ctx := context.WithoutCancel(cut)
	e := t.first()
	name, args, _ := command.Parse(e.Inbound.Text)
	rec, _, err := t.runner.opts.Store.Session(ctx, e.Session)
	if err != nil {
		t.fail(ctx, fmt.Errorf("session %s: %w", e.Session, err))
		return
	}
	call := command.Call{Name: name, Args: args, Inbound: e.Inbound, Principal: e.Principal, Key: e.Session, Session: rec, Printer: t.runner.opts.Printer}
	res, err := t.runner.opts.Commands.Run(ctx, t.runner.opts.Env, call)
	if err != nil {
		t.fail(ctx, fmt.Errorf("/%s: %w", name, err))
		return
	}
	switch {
	case res.Compress:
		t.compress(cut, res.Focus)
		return
	case res.Undo > 0:
		t.takeOut(ctx, res)
		return
	}
	if res.Branch {
		if res.Text, err = t.branch(ctx, rec, res.Title); err != nil {
			t.fail(ctx, fmt.Errorf("/%s: %w", name, err))
			return
		}
	}
	m := inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, SetCurrent: pointed(e.Session, res.Resume)}
	if res.Settings != nil || res.Rebuild != "" {
		more, err := t.change(ctx, &m, rec, res)
		if err != nil {
			t.fail(ctx, fmt.Errorf("/%s: %w", name, err))
			return
		}
		res.Text = strings.TrimSpace(res.Text + "\n" + more)
	}
	f := t.draft()
	f.Purpose = chat.PurposeAnswer
	m.Rows = t.runner.opts.Delivery.Render(res.Text, f)
	if n := len(m.Rows); n > 0 {
		m.Rows[n-1].Msg.Buttons = res.Buttons
	}
	if res.Stop {
		m.Cancel, m.CancelReason = []inbox.Lane{inbox.LaneOf(e.Session)}, "/"+name
	}
	if res.Open {
		s, err := t.runner.begin(e, res.Title)
		if err != nil {
			t.fail(ctx, err)
			return
		}
		m.Create, m.Session = s.created, session.Record{}
	}
	if t.commit(ctx, m) { // else it runs again, or somebody else runs it
		t.carryOut(ctx, res, rec, f)
	}
}

// pointed makes k point to id, if there is one.
func pointed(k session.Key, id session.ID) map[session.Key]session.ID {
	if id == "" {
		return nil
	}
	return map[session.Key]session.ID{k: id}
}

// carryOut does what a command that is marked done wants.
func (t *turn) carryOut(ctx context.Context, res command.Result, rec session.Record, f delivery.Draft) {
	e := t.first()
	name, _, _ := command.Parse(e.Inbound.Text)
	if res.Stop && t.runner.opts.Stop(inbox.LaneOf(e.Session), StoppedError{Person: "/" + name}) {
		t.log.Info("stopped", zap.String("by", e.Principal.ID))
	}
	if res.AfterCommit != nil {
		res.AfterCommit()
	}
	if res.Forget {
		told := t.runner.forgetSession(ctx, rec.ID)
		if err := t.runner.opts.Delivery.SendNotice(context.WithoutCancel(ctx), told, f); err != nil {
			t.log.Error("say what was deleted", zap.Error(err))
		}
	}
	if res.Restart {
		t.runner.opts.Restart(e.Inbound.Address)
	}
}
