package httpapi

import (
	"context"
	"slices"
	"strings"

	"hermesd/gateway/chat"
)

// NoClient is the reason of a failed send while no client waits for a message.
const NoClient = "no client waits for this any more; it is in the session"

// receipt returns the receipt of an exchange's answer: the ID of its completion.
func receipt(id string) chat.Receipt { return chat.Receipt{ID: completionID(id)} }

func completionID(id string) string { return "chatcmpl-" + id }

// Send passes m to the requests that wait for it. The receipt of an answer or a
// failure means that it was sent to one of them, or that the client sent an
// Idempotency-Key and gets it when it repeats the request. The receipt of a
// preview or a notice means that it is sent together with what follows.
func (a *Adapter) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	about := m.ReplyContext
	switch {
	case m.File != nil:
		return chat.Receipt{}, &chat.SendError{Outcome: chat.Permanent, Reason: "the HTTP API carries no files"}
	case about == nil || len(about.IDs) == 0:
		return chat.Receipt{}, &chat.SendError{Outcome: chat.Permanent, Reason: "the HTTP API only carries answers to requests"}
	case len(m.Text.Text) > textLimit:
		return chat.Receipt{}, &chat.SendError{Outcome: chat.Permanent, Reason: "the text is too long for one answer"}
	}
	if r, ok := a.delivered(about.IDs); ok {
		return r, nil
	}
	var open []*exchange
	a.mu.Lock()
	for _, id := range about.IDs {
		if e := a.exchanges[id]; e != nil {
			a.takeLocked(e, m)
			open = append(open, e)
		}
	}
	a.mu.Unlock()
	switch final := about.Purpose == chat.PurposeAnswer || about.Purpose == chat.PurposeFailure; {
	case len(open) == 0 && final && canAsk(about.IDs):
		return receipt(about.IDs[len(about.IDs)-1]), nil
	case len(open) == 0:
		return chat.Receipt{}, &chat.SendError{Outcome: chat.Permanent, Reason: NoClient}
	case final:
		return a.arrived(ctx, open)
	}
	return receipt(open[len(open)-1].id), nil
}

// takeLocked applies m to an exchange.
func (a *Adapter) takeLocked(e *exchange, m chat.Outbound) {
	v := result{said: true}
	switch m.ReplyContext.Purpose {
	case chat.PurposePreview:
		e.text = m.Text.Text
		e.changedLocked()
		return
	case chat.PurposeNotice:
		e.notices = append(e.notices[:len(e.notices):len(e.notices)], m.Text.Text)
		e.changedLocked()
		return
	case chat.PurposeFailure:
		v.err = failed(m.Text.Text)
	default:
		v.text, v.usage = m.Text.Text, m.ReplyContext.Usage
	}
	if e.over != nil && e.over.err != nil && !e.over.said {
		e.over = &v // for repeated requests; a client that got the adapter's own result keeps it
		e.written = false
		return
	}
	e.endLocked(v)
}

// delivered reports whether a client has received the answer to one of the
// exchanges.
func (a *Adapter) delivered(ids []string) (chat.Receipt, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if _, ok := a.had[id]; ok {
			return receipt(id), true
		}
	}
	return chat.Receipt{}, false
}

// canAsk reports whether a client can still get the answer to one of the
// exchanges from the store.
func canAsk(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(id, withKey) })
}

// arrived waits until a client has received the result of one of the exchanges,
// or no client waits for any of them.
func (a *Adapter) arrived(ctx context.Context, open []*exchange) (chat.Receipt, error) {
	kept := ""
	for _, e := range open {
		select {
		case <-e.settled:
		case <-ctx.Done():
			return chat.Receipt{}, &chat.SendError{Outcome: chat.Uncertain, Reason: "the client did not take its answer in time", Err: context.Cause(ctx)}
		}
		a.mu.Lock()
		written := e.written
		a.mu.Unlock()
		switch {
		case written:
			return receipt(e.id), nil
		case e.keyed:
			kept = e.id
		}
	}
	if kept != "" {
		return receipt(kept), nil
	}
	return chat.Receipt{}, &chat.SendError{Outcome: chat.Permanent, Reason: NoClient}
}

// Edit gives a preview a new text, or makes it the answer.
func (a *Adapter) Edit(ctx context.Context, _ string, m chat.Outbound) error {
	_, err := a.Send(ctx, m)
	if se, ok := err.(*chat.SendError); ok && se.Outcome == chat.Permanent {
		return &chat.SendError{Outcome: chat.Transient, Reason: se.Reason, Err: chat.ErrGone}
	}
	return err
}

// Delete does nothing: text that a client has received cannot be deleted, and
// other text is replaced by what follows.
func (a *Adapter) Delete(context.Context, chat.Address, string) error { return nil }

// Find reports whether a client has received an answer. After a restart no
// client waits, so an unknown answer can be sent again.
func (a *Adapter) Find(_ context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	if m.ReplyContext == nil {
		return chat.Receipt{}, false, nil
	}
	r, ok := a.delivered(m.ReplyContext.IDs)
	return r, ok, nil
}
