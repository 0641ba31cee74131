package turn

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// runCommand runs the command in the claim's only entry. The entry is committed
// before the effects of the command are applied, so that it cannot run twice. The
// cancellation of cancelable, by a later message, only interrupts a compaction.
func (c *claim) runCommand(cancelable context.Context) {
	ctx := context.WithoutCancel(cancelable)
	e := c.first()
	name, args, _ := command.Parse(e.Inbound.Text)
	rec, _, err := c.runner.parts.Store.Session(ctx, e.Session)
	if err != nil {
		c.fail(ctx, fmt.Errorf("load session %s: %w", e.Session, err))
		return
	}
	call := command.Call{Name: name, Args: args, Inbound: e.Inbound, Principal: e.Grant.Principal(), Key: e.Session, Session: rec, Shared: c.runner.parts.Sessions.Options.Policy.Shared(e.Inbound.Address), Allowed: c.runner.parts.Work.Allowed(e.Inbound.Address), Printer: c.runner.parts.Settings.Printer}
	res, err := c.runner.parts.Work.Commands.Run(ctx, call)
	if err != nil {
		c.fail(ctx, fmt.Errorf("/%s: %w", name, err))
		return
	}
	switch {
	case res.Compress:
		c.compressSession(cancelable, res.Focus)
		return
	case res.Undo > 0:
		c.undoExchanges(ctx, res)
		return
	}
	if res.Branch {
		if res.Text, err = c.branch(ctx, rec, res.Title); err != nil {
			c.fail(ctx, fmt.Errorf("/%s: %w", name, err))
			return
		}
	}
	m := store.Finish{SetCurrent: currentSession(e.Session, res.Resume)}
	if res.Settings != nil || res.Rebuild != "" {
		more, err := c.applySettings(ctx, &m, rec, res)
		if err != nil {
			c.fail(ctx, fmt.Errorf("/%s: %w", name, err))
			return
		}
		res.Text = strings.TrimSpace(res.Text + "\n" + more)
	}
	m.End = c.replied(res.Text)
	if n := len(m.Rows); n > 0 {
		m.Rows[n-1].Msg.Buttons = res.Buttons
	}
	if res.Stop && !res.KeepWaiting {
		m.Cancel, m.CancelReason = []inbox.Lane{inbox.LaneOf(e.Session)}, "/"+name
	}
	if res.Open {
		s, err := c.runner.parts.Sessions.New(e, res.Title)
		if err != nil {
			c.fail(ctx, err)
			return
		}
		m.Create, m.Rebuild = s.Creation(), nil
	}
	if c.finish(ctx, m) { // else the command runs again, here or in another process
		c.applyCommandResult(ctx, res, rec)
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
func (c *claim) applyCommandResult(ctx context.Context, res command.Result, rec session.Record) {
	e := c.first()
	name, _, _ := command.Parse(e.Inbound.Text)
	if res.Stop && c.runner.stop(inbox.LaneOf(e.Session), e.ID, name) {
		c.log.Info("run stopped", zap.String("by", e.Grant.Principal().ID))
	}
	if res.AfterCommit != nil {
		res.AfterCommit()
	}
	if res.Forget {
		text := c.runner.deleteSession(ctx, rec.ID)
		if _, err := c.reply.Delivery.Enqueue(context.WithoutCancel(ctx), c.reply.Answer(text)...); err != nil {
			c.log.Error("cannot send deletion notice", zap.Error(err))
		}
	}
}

// applySettings adds the session changes of a command to m, and returns an additional
// text for the user.
func (c *claim) applySettings(ctx context.Context, m *store.Finish, rec session.Record, res command.Result) (string, error) {
	if rec.ID == "" {
		s, err := c.runner.parts.Sessions.New(c.first(), "")
		if err != nil {
			return "", err
		}
		if res.Settings != nil {
			s.Configure("", *res.Settings)
		}
		m.Create = s.Creation()
		return "", nil
	}
	if res.Settings != nil {
		rec.Settings = *res.Settings
		m.Settings = map[session.ID]session.Settings{rec.ID: rec.Settings}
	}
	if res.Rebuild == "" {
		return "", nil
	}
	r, text, err := c.runner.parts.Sessions.Rebuild(ctx, rec, res.Rebuild)
	m.Rebuild = r
	return text, err
}
