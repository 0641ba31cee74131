package turn

import (
	"cmp"
	"context"
	"errors"
	"time"

	"hermesd/gateway/command"
	"hermesd/gateway/conversation"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

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
	copied, err := c.runner.parts.Store.Branch(ctx, rec.ID, -1, session.Creation{Record: to})
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
	deleted, err := r.parts.Store.DeleteSession(context.WithoutCancel(ctx), store.Deletion{ID: id})
	switch {
	case errors.Is(err, session.ErrNotFound):
		return r.parts.Settings.Printer.T("It is deleted already.")
	case err != nil:
		return r.parts.Settings.Printer.T("It could not be deleted: %v.", err)
	}
	r.parts.Settings.OnSessionDeleted(deleted)
	return r.parts.Settings.Printer.T("The conversation is deleted: %d messages, %d files. What a platform shows of it is the platform's; delete it there.", deleted.Messages, len(deleted.Files))
}
