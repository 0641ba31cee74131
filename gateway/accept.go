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
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
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
		if in.Kind == chat.Migrated && in.MigratedTo != nil {
			if err := g.migrateChat(ctx, in); err != nil {
				return err
			}
		}
		entries[i] = g.admit(ctx, in)
	}
	taken, err := g.opts.Store.Accept(ctx, entries)
	if err != nil {
		g.cancelPairing(entries...)
		g.notifyStoreFailure(ctx, entries)
		for _, e := range entries {
			g.reportReceived(e, observe.StoreFailed)
		}
		return fmt.Errorf("accept: %w", err)
	}
	g.outage.over()
	for _, a := range taken { // all before the first is set to work: it must see a command behind it
		if a.Claim != nil {
			g.runner.OfferClaim(*a.Claim)
		}
	}
	for i, a := range taken {
		if !a.IsNew {
			g.cancelPairing(entries[i])
			g.reportReceived(entries[i], observe.Duplicate)
			g.opts.Log.Debug("seen before", zap.Stringer("entry", a.ID), zap.String("platform", string(batch[i].Address.Platform)))
			continue
		}
		entries[i].ID = a.ID
		g.reportReceived(entries[i], observe.Accepted)
		g.wake(ctx, entries[i])
	}
	return nil
}

// admit makes an entry of an event: one that will be worked on, or one that
// ends at once by a rule.
func (g *Gateway) admit(ctx context.Context, in chat.Inbound) inbox.Entry {
	e := inbox.Entry{Inbound: in, State: inbox.Waiting, Accepted: time.Now()}
	if in.IgnoreRule != "" {
		return ignored(e, in.IgnoreRule)
	}
	if in.Kind == chat.Migrated {
		return ignored(e, "moved")
	}
	grant, denial := g.opts.Access.Check(in)
	if !grant.Valid() {
		return g.deny(e, denial)
	}
	return g.route(ctx, e, grant)
}

// ignored ends e by a rule. What strangers wrote is not kept.
func ignored(e inbox.Entry, rule string) inbox.Entry {
	e.State = inbox.Done
	e.Ended = e.Accepted
	e.Outcome = &inbox.Outcome{Result: inbox.Silent, Reason: rule}
	e.Inbound.Text, e.Inbound.ReplyTo, e.Inbound.Files = "", nil, nil
	return e
}

// route puts an event of somebody who may speak into its lane.
func (g *Gateway) route(ctx context.Context, e inbox.Entry, grant access.Grant) inbox.Entry {
	e.Principal = grant.Principal()
	e.Session = session.KeyFor(g.opts.Profile, e.Inbound.Address, e.Inbound.Sender.ID, g.opts.Policy)
	e.Lane = inbox.LaneOf(e.Session)
	g.applyBusyMode(ctx, &e)
	e.ClaimOnAccept = g.lanes.HasCapacity() && !g.paused.Load()
	name, args, ok := command.Parse(e.Inbound.Text)
	if _, known := g.commands.Lookup(name); ok && !known && g.opts.Skill != nil && e.Inbound.Kind == chat.Message {
		if _, skill := g.opts.Skill("", name, args); skill { // it is a message like any other
			ok = false
		}
	}
	if e.Inbound.Kind == chat.Callback && !ok {
		return ignored(e, "no_such_button")
	}
	if ok && e.Inbound.Kind != chat.Edit { // to press a button is to say what it holds
		e.Exclusive = true
		if g.commands.Immediate(name) {
			e.Lane = inbox.ImmediateLaneOf(e.Session)
		}
		return e
	}
	if e.Inbound.Kind == chat.Message && g.opts.Store.Waiting(e.Lane) >= g.opts.Limits.MaxWaiting {
		e.State, e.Ended = inbox.Done, e.Accepted
		e.Outcome = &inbox.Outcome{Result: inbox.Failed, Reason: "too many messages wait"}
		e.Notices = g.overflow(e)
	}
	return e
}

// commanded reports whether immediate commands wait or run for the session whose
// turns l leads. A turn begins behind them: what is said after a /new belongs to
// the new conversation.
func (g *Gateway) commanded(l inbox.Lane) bool {
	now := inbox.ImmediateLaneOf(session.Key(l))
	if now == l || l.Immediate() {
		return false
	}
	return g.opts.Store.Waiting(now) > 0 || g.runner.HasOfferedClaim(now) || g.lanes.Active(now)
}

// wake sets to work what was accepted.
func (g *Gateway) wake(ctx context.Context, e inbox.Entry) {
	if e.Inbound.Kind == chat.Callback {
		g.answer(e)
	}
	switch {
	case awaitsCode(e):
		g.sendPairingCode(ctx, e)
	case e.State == inbox.Done && e.Outcome.Result == inbox.Silent && e.Inbound.Kind == chat.Message:
		g.dismiss(e)
	case e.State == inbox.Done && e.Outcome.Result == inbox.Failed:
		g.delivery.WakeRows(e.Notices)
	case e.State == inbox.Done || e.Inbound.Kind == chat.Edit:
	default:
		g.acknowledge(ctx, e)
		joined := g.runner.PartArrived(e.Lane)
		switch {
		case e.Exclusive || joined:
		case e.Mode == inbox.Steer:
			g.runner.MessageReceived(e.Lane)
		case e.Mode != inbox.Queue:
			g.lanes.Interrupt(e.Lane, turn.SupersededError{Entry: e.ID})
		}
		g.lanes.Wake(e.Lane)
	}
}

// overflow tells the sender that the message was not taken.
func (g *Gateway) overflow(e inbox.Entry) []outbox.Row {
	text := g.opts.Printer.T("⚠️ %d messages already wait here; I did not take this one. Send it again later, or `/stop`.", g.opts.Limits.MaxWaiting)
	return g.delivery.Render(text, delivery.Draft{To: e.Inbound.Address, Role: outbox.Notice, ReplyTo: e.Inbound.ID, Purpose: chat.PurposeFailure, ReplyToIDs: []string{e.Inbound.ID}})
}

// answers reports whether an account can tell that a press was seen.
func answers(a chat.Adapter) bool {
	_, ok := a.(chat.CallbackAnswerer)
	return ok
}

// answer tells the platform that a press on a button was seen, once Accept has
// returned: some platforms have to hear first that it was taken.
func (g *Gateway) answer(e inbox.Entry) {
	on := e.Inbound.Address.AccountID()
	a, ok := g.opts.Adapters[on].(chat.CallbackAnswerer)
	if !ok {
		return
	}
	text := ""
	if e.State == inbox.Done {
		text = g.opts.Printer.T("This button does nothing.")
	}
	g.presses.add(on, func(ctx context.Context) {
		if err := a.AnswerCallback(ctx, e.Inbound, text); err != nil {
			g.opts.Log.Warn("answer callback", zap.Error(err))
		}
	})
}

// dismiss tells the platform of a message that ends by a rule that nobody is
// going to answer it.
func (g *Gateway) dismiss(e inbox.Entry) {
	if a, ok := g.opts.Adapters[e.Inbound.Address.AccountID()].(chat.Dismisser); ok {
		a.Dismiss(e.Inbound)
	}
}

// migrateChat lets everything of a chat follow it to its new id.
func (g *Gateway) migrateChat(ctx context.Context, in chat.Inbound) error {
	rekey := func(r session.Record) session.Key {
		at := r.Address
		at.Chat, at.Kind = in.MigratedTo.Chat, in.MigratedTo.Kind
		return session.KeyFor(g.opts.Profile, at, r.Owner, g.opts.Policy)
	}
	if err := g.opts.Store.MigrateChat(ctx, in.Address, *in.MigratedTo, rekey); err != nil {
		return fmt.Errorf("move %s to %s: %w", in.Address, *in.MigratedTo, err)
	}
	if err := g.opts.Moves.Add(ctx, in.Address, *in.MigratedTo); err != nil {
		return err
	}
	if err := g.crons.book.Follow(ctx, g.opts.Moves.Current); err != nil {
		return err
	}
	g.opts.Log.Info("the chat has a new id", zap.Stringer("from", in.Address), zap.Stringer("to", *in.MigratedTo))
	return g.resumeQueues(ctx) // what waited does so elsewhere now
}
