package turn

import (
	"context"
	"errors"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
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
	at, message := findExchange(t.session.Transcript, res.Undo)
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
		m.Accept = []inbox.Entry{newRetryEntry(c.first(), message, t.session.Record.Shared)}
		c.hasMoreWork = true
	} else {
		m.Rows = c.reply.Answer(c.T("Taken back: %s and what followed it. Nothing is deleted; it is in the archive of this conversation.", c.quoteText(message)))
	}
	t.commit(ctx, m)
}

// findExchange returns the index of the n-th last user message, and the message; -1 if
// there are fewer.
func findExchange(tr *llm.Transcript, n int) (at int, message llm.Message) {
	messages := tr.Since(0)
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != llm.User || !isUserMessage(m) {
			continue
		}
		if n--; n == 0 {
			return i, m
		}
	}
	return -1, llm.Message{}
}

// isUserMessage reports whether a message with the role llm.User was written by a
// user, and does not hold tool results.
func isUserMessage(m llm.Message) bool {
	for _, b := range m.Blocks {
		if b.Type == llm.ToolResult {
			return false
		}
	}
	return len(m.Blocks) > 0
}

// newRetryEntry returns an entry with the content of m for the sender of e. In a
// shared session its level is at most access.Guest.
func newRetryEntry(e inbox.Entry, m llm.Message, shared bool) inbox.Entry {
	in := e.Inbound
	in.IdempotencyKey, in.Kind, in.ReplyTo, in.Files, in.Text = e.Inbound.IdempotencyKey+"#retry", chat.Message, nil, nil, ""
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			in.Text = b.Text
		case llm.Image:
			in.Files = append(in.Files, chat.File{Kind: chat.Photo, MIME: b.MIME, Path: b.Path})
		}
	}
	if shared { // input.Composer adds the name again
		if _, rest, ok := strings.Cut(in.Text, "] "); ok && strings.HasPrefix(in.Text, "[") {
			in.Text = rest
		}
	}
	grant := e.Grant
	if shared { // another user may have written it
		grant = grant.AtMost(access.Guest)
	}
	return inbox.Entry{Inbound: in, Lane: inbox.LaneOf(e.Session), Session: e.Session, Grant: grant, State: inbox.Waiting, Accepted: time.Now()}
}

// quoteText returns the beginning of a user message for display.
func (c *claim) quoteText(m llm.Message) string {
	for _, b := range m.Blocks {
		if b.Type != llm.Text {
			continue
		}
		text := strings.Join(strings.Fields(strings.ReplaceAll(b.Text, "`", "'")), " ")
		if r := []rune(text); len(r) > 80 {
			text = string(r[:80]) + "…"
		}
		return "`" + text + "`"
	}
	return c.T("your message")
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
	deleted, err := r.parts.Store.DeleteSession(context.WithoutCancel(ctx), id)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return r.parts.Settings.Printer.T("It is deleted already.")
	case err != nil:
		return r.parts.Settings.Printer.T("It could not be deleted: %v.", err)
	}
	r.parts.Settings.OnSessionDeleted(deleted)
	return r.parts.Settings.Printer.T("The conversation is deleted: %d messages, %d files. What a platform shows of it is the platform's; delete it there.", deleted.Messages, len(deleted.Files))
}
