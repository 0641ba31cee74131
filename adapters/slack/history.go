package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/checkpoint"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

const (
	threadQuotes = 50 // of a thread that the bot joined later
	threadPages  = 4
)

// MessagesBefore implements chat.ThreadReader. It makes one call for at most
// about a hundred messages, and returns the last fifty of them.
func (a *Adapter) MessagesBefore(ctx context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error) {
	if in.Address.Thread == "" || in.Address.Thread == in.ID {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	v := &historyRequest{HistoryRequest: checkpoint.HistoryRequest{Channel: in.Address.Chat, Thread: in.Address.Thread}}
	if !since.IsZero() {
		v.Seen = inbound.TS(since)
	}
	err := a.replies(ctx, v, in.ID, threadPages)
	bodies := v.got
	if errors.Is(err, errTooMuch) || errors.Is(err, errNoNextPage) {
		err = errors.New("the thread is long; some of its messages were left out")
	} else if err != nil {
		err = fmt.Errorf("the earlier messages of this thread could not be read: %s", apierror.SendError(err).Reason)
	}
	c := a.converter()
	lctx, stop := context.WithTimeout(ctx, lookTimeout)
	defer stop()
	var out []chat.Quote
	for _, b := range bodies[max(0, len(bodies)-threadQuotes):] {
		a.people.Load(lctx, inbound.Subject{User: b.User})
		if q, ok := quote(c, b); ok {
			out = append(out, q)
		}
	}
	if n := len(bodies) - threadQuotes; n > 0 && err == nil {
		err = fmt.Errorf("the thread is long; messages at its beginning that were left out: %d", n)
	}
	return out, err
}

// quote returns a message of another user; ok is false for messages of the bot
// and service messages.
func quote(c inbound.Converter, b inbound.Body) (chat.Quote, bool) {
	in, ok := c.Message(b)
	if !ok || !c.Quotable(b) {
		return chat.Quote{}, false
	}
	q := chat.Quote{ID: in.ID, Text: in.Text, Author: cmp.Or(in.Sender.Name, in.Sender.Handle, in.Sender.ID)}
	for _, f := range in.Files {
		name := "[file: " + cmp.Or(f.Name, string(f.Kind)) + "]"
		if q.Text != "" {
			name = "\n" + name
		}
		q.Text += name
	}
	return q, q.Text != ""
}
