package gateway

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// Accept determines the principal and the conversation of each event, stores the
// batch in one write and wakes its lanes. It implements chat.Sink. If it returns an
// error nothing was accepted, and the adapter should offer the batch again; a chat
// that was migrated stays so.
func (g *Gateway) Accept(ctx context.Context, batch []chat.Inbound) error {
	if len(batch) == 0 {
		return nil
	}
	for _, in := range batch { // before any entry: a migration applies to the events before it too
		if in.Kind == chat.Migrated && in.MigratedTo != nil {
			if err := g.migrateChat(ctx, in); err != nil {
				return err
			}
		}
	}
	entries := make([]inbox.Entry, len(batch))
	admissions := make([]inbox.Admission, len(batch))
	offers := make([]*pairing.Offer, len(batch))
	ahead := make(map[inbox.Lane]int) // entries of the batch so far
	for i, in := range batch {
		e, offer := g.createEntry(ctx, in)
		entries[i], offers[i] = e, offer
		admissions[i] = inbox.Admission{Entry: e, Claim: e.State == inbox.Waiting && g.lanes.HasCapacity() && !g.pause.Paused(), Limit: g.queueLimit(e, ahead[e.Lane])}
		if offer != nil {
			admissions[i].Notices, admissions[i].Edits = g.renderPairingCode(e, offer.Code), []inbox.ValueEdit{{Key: pairing.StoreKey, Change: offer.Change}}
		}
		ahead[e.Lane]++
	}
	taken, err := g.opts.Store.Accept(ctx, admissions)
	if err != nil {
		for _, o := range offers {
			endOffer(o, false)
		}
		g.notifyStoreFailure(ctx, entries)
		for _, e := range entries {
			g.reportReceived(e, observe.StoreFailed)
		}
		return fmt.Errorf("accept: %w", err)
	}
	g.storeOutage.recordRecovery()
	for _, a := range taken { // all claims before the first wake: a turn must see the command that follows it
		if a.Claim != nil {
			g.opts.Active.OfferClaim(*a.Claim)
		}
	}
	for i, a := range taken {
		endOffer(offers[i], a.IsNew)
		if !a.IsNew {
			g.reportReceived(entries[i], observe.Duplicate)
			g.opts.Log.Debug("duplicate event", zap.Stringer("entry", a.ID), zap.String("platform", string(batch[i].Address.Platform)))
			continue
		}
		entries[i].ID = a.ID
		g.delivery.WakeRows(admissions[i].Notices)
		if l := admissions[i].Limit; a.Refused {
			entries[i].State, entries[i].Outcome = inbox.Done, &l.Outcome
			g.delivery.WakeRows(l.Notices)
		}
		g.reportReceived(entries[i], observe.Accepted)
		g.wake(ctx, entries[i])
	}
	return nil
}

// createEntry returns the inbox entry of an event, with secrets masked: waiting in a
// lane, or already done because a rule ends it, with the pairing code that the sender is
// offered, if any.
func (g *Gateway) createEntry(ctx context.Context, in chat.Inbound) (inbox.Entry, *pairing.Offer) {
	in.Text = g.opts.Agent.Mask(in.Text)
	if in.ReplyTo != nil {
		quote := *in.ReplyTo
		quote.Text = g.opts.Agent.Mask(quote.Text)
		in.ReplyTo = &quote
	}
	e := inbox.Entry{Inbound: in, State: inbox.Waiting, Accepted: time.Now()}
	if in.IgnoreRule != "" {
		return ignoreEntry(e, in.IgnoreRule), nil
	}
	if in.Kind == chat.Migrated {
		return ignoreEntry(e, "moved"), nil
	}
	in.Address = g.opts.Moves.Current(in.Address) // it may have been sent before the chat migrated
	e.Inbound.Address = in.Address
	grant, denial := g.opts.Access.Check(in)
	if !grant.Valid() {
		return g.deny(e, denial)
	}
	return g.route(ctx, e, grant), nil
}

// ignoreEntry returns e as done, with rule as its reason and without its content:
// what unauthorized senders write is not stored.
func ignoreEntry(e inbox.Entry, rule string) inbox.Entry {
	e.State = inbox.Done
	e.Ended = e.Accepted
	e.Outcome = &inbox.Outcome{Result: inbox.Silent, Reason: rule}
	e.Inbound.Text, e.Inbound.ReplyTo, e.Inbound.Files = "", nil, nil
	return e
}

// route sets principal, session and lane of the entry of an authorized sender.
func (g *Gateway) route(ctx context.Context, e inbox.Entry, grant access.Grant) inbox.Entry {
	e.Principal = grant.Principal()
	e.Session = session.KeyFor(g.opts.Profile, e.Inbound.Address, e.Inbound.Sender.ID, g.opts.Policy)
	e.Lane = inbox.LaneOf(e.Session)
	g.applyBusyMode(ctx, &e)
	name, args, ok := command.Parse(e.Inbound.Text)
	if _, known := g.commands.Lookup(name); ok && !known && e.Inbound.Kind == chat.Message {
		if _, skill := g.opts.Skill("", name, args); skill { // handled as an ordinary message
			ok = false
		}
	}
	if e.Inbound.Kind == chat.Callback && !ok {
		return ignoreEntry(e, "no_such_button")
	}
	if ok && e.Inbound.Kind != chat.Edit { // the data of a button is a command as well
		e.Exclusive = true
		if g.commands.Immediate(name) {
			e.Lane = inbox.ImmediateLaneOf(e.Session)
		}
		return e
	}
	return e
}

// queueLimit makes the store refuse the message of e if too many wait in its lane.
// ahead is the number of entries of the lane that precede it in the same batch; the
// store knows which of them are new.
func (g *Gateway) queueLimit(e inbox.Entry, ahead int) *inbox.Limit {
	limit := g.opts.Limits.MaxQueuedMessages
	if e.State != inbox.Waiting || e.Exclusive || e.Inbound.Kind != chat.Message || g.opts.Store.Waiting(e.Lane)+ahead < limit {
		return nil
	}
	return &inbox.Limit{MaxWaiting: limit, Outcome: inbox.Outcome{Result: inbox.Failed, Reason: "too many messages wait"}, Notices: g.renderQueueFull(e)}
}

// waitsForCommands reports whether immediate commands wait or run for the session of
// lane l; l is then woken after them. Its next turn starts after them: a message after
// /new belongs to the new session.
func (g *Gateway) waitsForCommands(l inbox.Lane) bool {
	immediate := inbox.ImmediateLaneOf(session.Key(l))
	if immediate == l || l.Immediate() || !g.hasWork(immediate) {
		return false
	}
	g.lanes.WakeAfter(l, immediate)
	return g.hasWork(immediate) // else it may have ended before WakeAfter
}

// hasWork reports whether entries of an immediate lane wait or run.
func (g *Gateway) hasWork(immediate inbox.Lane) bool {
	_, offered := g.opts.Active.OfferedClaim(immediate)
	return offered || g.opts.Store.Waiting(immediate) > 0 || g.lanes.Active(immediate)
}

// wake starts the work on an accepted entry: it wakes the lane, or reports the result
// of an entry that is already done.
func (g *Gateway) wake(ctx context.Context, e inbox.Entry) {
	if e.Inbound.Kind == chat.Callback {
		text := ""
		if e.State == inbox.Done {
			text = g.opts.Printer.T("This button does nothing.")
		}
		g.opts.Accounts.AnswerCallback(e.Inbound, text)
	}
	switch {
	case e.State == inbox.Done && e.Outcome.Result == inbox.Silent && e.Inbound.Kind == chat.Message:
		g.opts.Accounts.Dismiss(e.Inbound)
	case e.State == inbox.Done || e.Inbound.Kind == chat.Edit:
	default:
		g.acknowledge(ctx, e)
		joined := g.runner.PartArrived(e.Lane)
		switch {
		case e.Exclusive || joined:
		case e.Mode == inbox.Steer:
			g.approval.Questions.MessageReceived(e.Lane)
		case e.Mode != inbox.Queue && g.mayChangeTurn(e):
			g.runner.Supersede(e.Lane, e.ID)
		}
		g.lanes.Wake(e.Lane)
	}
}

// mayChangeTurn reports whether the message of e may stop the running turn of its lane, or
// become part of it. In a shared conversation a guest does so with their own turns only;
// the message then waits.
func (g *Gateway) mayChangeTurn(e inbox.Entry) bool {
	return e.Principal.Level >= access.Member || !g.opts.Policy.Shared(e.Inbound.Address) || g.opts.Active.IsSoleAuthor(e.Lane, e.Principal)
}

// renderQueueFull returns the notice that the message of e was not accepted because
// its lane is full.
func (g *Gateway) renderQueueFull(e inbox.Entry) []outbox.Row {
	text := g.opts.Printer.T("⚠️ %d messages already wait here; I did not take this one. Send it again later, or `/stop`.", g.opts.Limits.MaxQueuedMessages)
	return g.delivery.Render(text, delivery.Draft{To: e.Inbound.Address, Role: outbox.Notice, ReplyTo: e.Inbound.ID, Purpose: chat.PurposeFailure, ReplyToIDs: []string{e.Inbound.ID}})
}

// migrateChat moves everything that belongs to a chat to the chat's new ID.
func (g *Gateway) migrateChat(ctx context.Context, in chat.Inbound) error {
	rekey := func(r session.Record) session.Key {
		at := r.Address
		at.Chat, at.Kind = in.MigratedTo.Chat, in.MigratedTo.Kind
		return session.KeyFor(g.opts.Profile, at, r.Owner, g.opts.Policy)
	}
	err := g.resumption.migrate(ctx, func() error { return g.opts.Store.MigrateChat(ctx, in.Address, *in.MigratedTo, rekey) })
	if err != nil {
		return fmt.Errorf("migrate chat %s to %s: %w", in.Address, *in.MigratedTo, err)
	}
	if err := g.opts.Moves.Add(ctx, in.Address, *in.MigratedTo); err != nil {
		return err
	}
	if err := g.cron.Manager().Follow(ctx, g.opts.Moves.Current); err != nil {
		return err
	}
	g.opts.Log.Info("chat migrated", zap.Stringer("from", in.Address), zap.Stringer("to", *in.MigratedTo))
	return g.control.ResumeQueues(ctx) // waiting entries and rows have new lanes and queues
}
