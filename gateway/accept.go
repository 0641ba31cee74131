package gateway

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// Accept decides of each event who speaks and to which conversation it belongs,
// stores all of them at once and wakes their lanes. It implements chat.Sink.
func (g *Gateway) Accept(ctx context.Context, batch []chat.Inbound) error {
	if len(batch) == 0 {
		return nil
	}
	entries := make([]inbox.Entry, len(batch))
	for i, in := range batch {
		if in.Event == chat.Moved && in.MovedTo != nil {
			if err := g.move(ctx, in); err != nil {
				return err
			}
		}
		entries[i] = g.admit(in)
	}
	taken, err := g.o.Store.Accept(ctx, entries)
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	for i, a := range taken {
		if a.Claim != nil {
			g.runner.Hand(*a.Claim)
		}
		if !a.Fresh {
			g.o.Log.Debug("seen before", zap.Stringer("entry", a.ID), zap.String("platform", string(batch[i].From.Platform)))
			continue
		}
		entries[i].ID = a.ID
		g.wake(ctx, entries[i])
	}
	return nil
}

// admit makes an entry of an event: one that will be worked on, or one that
// ends at once by a rule.
func (g *Gateway) admit(in chat.Inbound) inbox.Entry {
	e := inbox.Entry{In: in, State: inbox.Waiting, Accepted: time.Now()}
	if in.Rule != "" {
		return ignored(e, in.Rule)
	}
	if in.Event == chat.Moved {
		return ignored(e, "moved")
	}
	grant, denial := g.o.Access.Check(in)
	if !grant.Valid() {
		return ignored(e, denial.Rule)
	}
	return g.route(e, grant)
}

// ignored ends e by a rule. What strangers wrote is not kept.
func ignored(e inbox.Entry, rule string) inbox.Entry {
	e.State = inbox.Done
	e.Ended = e.Accepted
	e.Outcome = &inbox.Outcome{Result: inbox.Silent, Why: rule}
	e.In.Text, e.In.ReplyTo, e.In.Files = "", nil, nil
	return e
}

// route puts an event of somebody who may speak into its lane.
func (g *Gateway) route(e inbox.Entry, grant access.Grant) inbox.Entry {
	e.By = grant.Principal()
	e.Session = session.KeyFor(g.o.Profile, e.In.From, e.In.Sender.ID, g.o.Policy)
	e.Lane = inbox.LaneOf(e.Session)
	e.Claim = g.lanes.Free()
	if e.In.Event == chat.Callback {
		return ignored(e, "no_such_button")
	}
	if name, _, ok := command.Parse(e.In.Text); ok && e.In.Event == chat.Message {
		e.Solo = true
		if g.commands.Immediate(name) {
			e.Lane = inbox.Now(e.Session)
		}
		return e
	}
	if e.In.Event == chat.Message && g.o.Store.Waiting(e.Lane) >= g.o.Limits.MaxWaiting {
		e.State, e.Ended = inbox.Done, e.Accepted
		e.Outcome = &inbox.Outcome{Result: inbox.Failed, Why: "too many messages wait"}
	}
	return e
}

// wake sets to work what was accepted.
func (g *Gateway) wake(ctx context.Context, e inbox.Entry) {
	switch {
	case e.In.Event == chat.Callback:
		g.answer(ctx, e.In)
	case e.State == inbox.Done && e.Outcome.Result == inbox.Failed:
		g.overflow(ctx, e)
	case e.State == inbox.Done || e.In.Event == chat.Edit:
	default:
		joined := g.runner.Joined(e.Lane)
		if g.o.Mode == turn.Interrupt && !e.Solo && !joined {
			g.lanes.Interrupt(e.Lane, turn.Newer{By: e.ID})
		}
		g.lanes.Wake(e.Lane)
	}
}

// overflow tells the sender that the message was not taken.
func (g *Gateway) overflow(ctx context.Context, e inbox.Entry) {
	text := fmt.Sprintf("⚠️ %d messages already wait here; I did not take this one. Send it again later, or `/stop`.", g.o.Limits.MaxWaiting)
	if err := g.delivery.Say(ctx, text, delivery.Draft{To: e.In.From, ReplyTo: e.In.ID}); err != nil {
		g.o.Log.Error("overflow notice", zap.Stringer("entry", e.ID), zap.Error(err))
	}
}

// answer tells the platform that a press on a button was seen.
func (g *Gateway) answer(ctx context.Context, in chat.Inbound) {
	a, ok := g.o.Adapters[in.From.On()].(chat.Answerer)
	if !ok {
		return
	}
	if err := a.Answer(ctx, in, "This button does nothing any more."); err != nil {
		g.o.Log.Warn("answer callback", zap.Error(err))
	}
}

// move lets everything of a chat follow it to its new id.
func (g *Gateway) move(ctx context.Context, in chat.Inbound) error {
	rekey := func(r session.Record) session.Key {
		at := r.At
		at.Chat, at.Kind = in.MovedTo.Chat, in.MovedTo.Kind
		return session.KeyFor(g.o.Profile, at, r.Owner, g.o.Policy)
	}
	if err := g.o.Store.Move(ctx, in.From, *in.MovedTo, rekey); err != nil {
		return fmt.Errorf("move %s to %s: %w", in.From, *in.MovedTo, err)
	}
	g.o.Log.Info("the chat has a new id", zap.Stringer("from", in.From), zap.Stringer("to", *in.MovedTo))
	return g.takeUp(ctx) // what waited does so elsewhere now
}
