package turn

import (
	"context"
	"errors"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// takeOut takes the last exchanges out of the conversation, as many as the
// command says. They are archived. If it is to be tried again, what the person
// said first of them is said once more.
func (t *turn) takeOut(ctx context.Context, res command.Result) {
	e := t.first()
	s, err := t.runner.lockSession(ctx, e, true)
	switch {
	case err != nil && ctx.Err() != nil:
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.locks.release(s.record.ID)
	at, said := lastExchanges(s.transcript, res.Undo)
	m := inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}}
	f := t.draft()
	f.Purpose = chat.PurposeAnswer
	if at < 0 {
		m.Rows = t.runner.opts.Delivery.Render(t.T("There is nothing to take back."), f)
		t.commit(ctx, m)
		return
	}
	if err := t.archive(s, at); err != nil {
		t.fail(ctx, err)
		return
	}
	if res.Retry {
		m.Accept = []inbox.Entry{again(e, said, s.record.Shared)}
		t.moreWork = true
	} else {
		m.Rows = t.runner.opts.Delivery.Render(t.T("Taken back: %s and what followed it. Nothing is deleted; it is in the archive of this conversation.", t.quoted(said)), f)
	}
	t.commit(ctx, m)
}

// archive takes what stands in the conversation from message at on out of it.
func (t *turn) archive(s *sessionState, at int) error {
	kept, err := rows(s.transcript.Since(0))
	if err != nil {
		return err
	}
	t.session = s
	t.passes = []inbox.Compaction{{Length: len(kept), From: at, To: len(kept), Active: kept[:at:at]}}
	s.transcript.Truncate(at)
	t.stored = at
	s.engine, s.savedEngineState = nil, nil // it may know of what is not there any more
	s.record.PromptTokens, s.record.PromptMessages = 0, 0
	s.record.PendingBreak = string(ledger.Undo)
	return nil
}

// lastExchanges returns where the last n things that a person said begin, and
// what was said there; -1 if there are not so many.
func lastExchanges(tr *llm.Transcript, n int) (at int, said llm.Message) {
	messages := tr.Since(0)
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != llm.User || !spoken(m) {
			continue
		}
		if n--; n == 0 {
			return i, m
		}
	}
	return -1, llm.Message{}
}

// spoken reports whether a message of a user is one, and not results of tools.
func spoken(m llm.Message) bool {
	for _, b := range m.Blocks {
		if b.Type == llm.ToolResult {
			return false
		}
	}
	return len(m.Blocks) > 0
}

// again is an entry that says m once more, for the person who asked for it.
func again(e inbox.Entry, m llm.Message, shared bool) inbox.Entry {
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
	if shared { // the name is put in front of it anew
		if _, rest, ok := strings.Cut(in.Text, "] "); ok && strings.HasPrefix(in.Text, "[") {
			in.Text = rest
		}
	}
	by := e.Principal
	if shared { // somebody else may have said it
		by.Level = min(by.Level, access.Guest)
	}
	return inbox.Entry{Inbound: in, Lane: inbox.LaneOf(e.Session), Session: e.Session, Principal: by, State: inbox.Waiting, Accepted: time.Now()}
}

// quoted shows the beginning of what a person said.
func (t *turn) quoted(m llm.Message) string {
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
	return t.T("your message")
}

// branch has the conversation go on in a copy of itself.
func (t *turn) branch(ctx context.Context, rec session.Record, title string) (string, error) {
	now := time.Now().UTC()
	to := rec
	to.ID, to.Title, to.Created, to.Updated = session.NewID(now), title, now, now
	if title == "" && rec.Title != "" {
		to.Title = t.T("%s (copy)", rec.Title)
	}
	made, err := t.runner.opts.Store.Branch(ctx, rec.ID, -1, session.Creation{Record: to})
	if err != nil {
		return "", err
	}
	return t.T("You are in a copy of the conversation now (`%s`, %d messages). The original stays as it is: `/resume %s` goes back to it.", made.ID, made.Messages, rec.ID), nil
}

// forget deletes a session, once nothing of it runs any more, and says what came
// of it.
func (r *Runner) forgetSession(ctx context.Context, id session.ID) string {
	if busy := r.locks.acquire(id); busy != nil {
		select {
		case <-busy:
			return r.forgetSession(ctx, id)
		case <-ctx.Done():
			return r.opts.Printer.T("It could not be deleted: %v.", context.Cause(ctx))
		}
	}
	defer r.locks.release(id)
	r.cache.take(id)
	gone, err := r.opts.Store.DeleteSession(context.WithoutCancel(ctx), id)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return r.opts.Printer.T("It is deleted already.")
	case err != nil:
		return r.opts.Printer.T("It could not be deleted: %v.", err)
	}
	if r.opts.OnSessionDeleted != nil {
		r.opts.OnSessionDeleted(gone)
	}
	return r.opts.Printer.T("The conversation is deleted: %d messages, %d files. What a platform shows of it is the platform's; delete it there.", gone.Messages, len(gone.Files))
}
