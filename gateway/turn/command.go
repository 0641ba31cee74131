package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/gateway/access"
	"hermesd/gateway/command"
	"hermesd/gateway/conversation"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
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
	if rec.ID != "" && (res.Open || res.Branch || res.Resume != "") {
		m.Events = c.runner.parts.Agent.Memory.External.EndEvents(c.memoryTurn(rec))
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

// reloadConfig has the configuration read again if an owner says /reload. It returns what
// is wrong with it as a text for the user; "" if nothing is.
func (c *claim) reloadConfig(ctx context.Context, res command.Result) string {
	if res.Rebuild != "reload" || c.first().Grant.Principal().Level < access.Owner {
		return ""
	}
	problem := c.runner.parts.Settings.OnReload(ctx)
	if problem == "" {
		return ""
	}
	return c.runner.parts.Settings.Printer.T("The configuration stays as it was: %s", problem)
}

// applySettings adds the session changes of a command to m, and returns an additional
// text for the user.
func (c *claim) applySettings(ctx context.Context, m *store.Finish, rec session.Record, res command.Result) (text string, err error) {
	text = c.reloadConfig(ctx, res)
	if rec.ID == "" {
		s, err := c.runner.parts.Sessions.New(c.first(), "")
		if err != nil {
			return "", err
		}
		if res.Settings != nil {
			s.Configure("", *res.Settings)
		}
		m.Create = s.Creation()
		return text, nil
	}
	if res.Settings != nil {
		rec.Settings = *res.Settings
		m.Settings = map[session.ID]session.Settings{rec.ID: rec.Settings}
	}
	if res.Rebuild == "" {
		return "", nil
	}
	r, changes, err := c.runner.parts.Sessions.Rebuild(ctx, rec, res.Rebuild)
	m.Rebuild = r
	return strings.TrimSpace(text + "\n" + changes), err
}

// compressSession runs the command /compress.
func (c *claim) compressSession(ctx context.Context, focus string) {
	t := c.use(ctx, false)
	if t == nil {
		return
	}
	defer t.close()
	t.session.Model, _ = c.runner.parts.Agent.Choose(t.session.Record.Settings)
	text, made, err := t.compaction.Compress(ctx, focus)
	if err == nil && made != nil {
		err = t.recordCompaction(*made)
	}
	switch {
	case err != nil:
		c.endEarly(ctx, err)
	case made != nil:
		t.commit(ctx, store.Turn{End: c.replied(text)})
	default:
		c.finish(ctx, store.Finish{End: c.replied(text)})
	}
}

// recordCompaction adds a compaction by the agent to the changes of the turn.
func (t *turn) recordCompaction(ev agent.Compacted) error {
	if err := t.compaction.Add(ev); err != nil {
		return err
	}
	t.auxiliaryUsage = t.auxiliaryUsage.Add(ev.Usage)
	t.archived = append(t.archived, ev.Replaced[ev.From:ev.To]...)
	t.trace.Notices = append(t.trace.Notices, fmt.Sprintf("%s: about %d tokens became %d, %d messages archived", ev.Reason, ev.Before, ev.After, ev.To-ev.From))
	return nil
}

// undoExchanges archives the last exchanges of the conversation, as many as res says.
// If res is a retry, it accepts the user message of the first of them again as a new
// entry.
func (c *claim) undoExchanges(ctx context.Context, res command.Result) {
	t := c.use(ctx, true)
	if t == nil {
		return
	}
	defer t.close()
	at, message := t.session.Exchange(res.Undo)
	if at < 0 {
		c.finish(ctx, store.Finish{End: c.replied(c.T("There is nothing to take back."))})
		return
	}
	if err := t.session.ArchiveFrom(at); err != nil {
		c.fail(ctx, err)
		return
	}
	m := store.Turn{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}}
	if res.Retry {
		m.Accept = []inbox.Entry{input.Repeat(c.first(), message, t.session.Record.Shared)}
		c.hasMoreWork = true
	} else {
		quoted := cmp.Or(conversation.Quote(message), c.T("your message"))
		m.Rows = c.reply.Answer(c.T("Taken back: %s and what followed it. Nothing is deleted; it is in the archive of this conversation.", quoted))
	}
	t.commit(ctx, m)
}

// branch makes a copy of the session rec the current session of its conversation, and
// returns the text for the user.
func (c *claim) branch(ctx context.Context, rec session.Record, title string) (string, error) {
	now := time.Now().UTC()
	to := rec
	to.ID, to.Title, to.Created, to.Updated = session.NewID(now), title, now, now
	if title == "" && rec.Title != "" {
		to.Title = c.T("%s (copy)", rec.Title)
	}
	copied, err := c.runner.parts.Store.Branch(ctx, rec.ID, -1, store.Creation{Record: to})
	if err != nil {
		return "", err
	}
	c.runner.parts.Settings.OnSessionChanged(copied.ID)
	return c.T("You are in a copy of the conversation now (`%s`, %d messages). The original stays as it is: `/resume %s` goes back to it.", copied.ID, copied.Messages, rec.ID), nil
}

// deleteSession deletes a session once no turn holds it, and returns the text for the
// user.
func (r *Runner) deleteSession(ctx context.Context, id session.ID) string {
	if err := r.parts.Sessions.Locks.Acquire(ctx, id); err != nil {
		return r.parts.Settings.Printer.T("It could not be deleted: %v.", err)
	}
	defer r.parts.Sessions.Locks.Release(id)
	r.parts.Sessions.Forget(id)
	rec, _, err := r.parts.Store.SessionByID(ctx, id)
	if err != nil {
		return r.parts.Settings.Printer.T("It could not be deleted: %v.", err)
	}
	memory := r.parts.Agent.Memory.External
	events, stays := memory.ForgetSession(rec)
	deleted, err := r.parts.Store.DeleteSession(context.WithoutCancel(ctx), store.Deletion{ID: id, Events: events})
	switch {
	case errors.Is(err, session.ErrNotFound):
		return r.parts.Settings.Printer.T("It is deleted already.")
	case err != nil:
		return r.parts.Settings.Printer.T("It could not be deleted: %v.", err)
	}
	memory.Wake()
	r.parts.Settings.OnSessionDeleted(deleted)
	text := r.parts.Settings.Printer.T("The conversation is deleted: %d messages, %d files. What a platform shows of it is the platform's; delete it there.", deleted.Messages, len(deleted.Files))
	if stays != "" {
		text += "\n" + r.parts.Settings.Printer.T("Long-term memory is told to delete it too. It cannot delete: %s.", stays)
	}
	return text
}
