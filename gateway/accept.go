package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/admission"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

// Accept decides about each event, stores the batch with what its senders are told in one
// write and wakes its lanes. If it returns an error nothing was accepted, and the adapter
// should offer the batch again.
func (g *Gateway) Accept(ctx context.Context, batch []chat.Inbound) error {
	if len(batch) == 0 {
		return nil
	}
	var tally admission.Tally
	events := make([]event, len(batch))
	admissions := make([]store.Admission, len(batch))
	for i, in := range batch {
		events[i] = g.decide(ctx, in, &tally)
		admissions[i] = events[i].admission
	}
	taken, err := g.parts.Store.Accept(ctx, admissions)
	if err != nil {
		for _, ev := range events {
			g.settle(ev, false)
			g.reportReceived(ev.admission.Entry, observe.StoreFailed)
		}
		g.notifyStoreFailure(ctx, admissions)
		return fmt.Errorf("accept: %w", err)
	}
	g.storeOutage.recordRecovery()
	for _, a := range taken { // all claims before the first wake: a turn must see the command that follows it
		if a.Claim != nil {
			g.parts.Turns.Active.OfferClaim(*a.Claim)
		}
	}
	for i, a := range taken {
		g.settle(events[i], a.IsNew && !a.Refused)
		g.announce(events[i], a)
	}
	return nil
}

// An event is one event of a batch, as it is offered to the store.
type event struct {
	admission    store.Admission
	offer        *pairing.Offer // of the pairing code in it, if any
	acknowledged bool           // its notice is an acknowledgement
}

// decide gathers the facts about an event, with secrets masked, and decides about it.
func (g *Gateway) decide(ctx context.Context, in chat.Inbound, t *admission.Tally) event {
	in.Text = g.parts.Settings.Mask(in.Text)
	if in.ReplyTo != nil {
		quote := *in.ReplyTo
		quote.Text = g.parts.Settings.Mask(quote.Text)
		in.ReplyTo = &quote
	}
	facts, offer := admission.Facts{Now: time.Now()}, (*pairing.Offer)(nil)
	if in.IgnoreRule == "" && in.Kind != chat.Migrated {
		offer = g.gather(ctx, in, &facts)
	}
	d := g.rules.Decide(in, facts, t)
	ev := event{offer: offer, admission: store.Admission{Entry: d.Entry, Claim: d.Claim}}
	if offer != nil {
		ev.admission.Edits = []store.ValueEdit{{Key: pairing.StoreKey, Change: offer.Change}}
	}
	ev.acknowledged = d.Acknowledgement && g.acks.reserve(d.Entry.Lane)
	if ev.acknowledged || !d.Acknowledgement {
		ev.admission.Notices = g.render(d.Notice)
	}
	if d.Refusal != nil {
		ev.admission.Limit = &store.Limit{MaxWaiting: g.rules.MaxWaiting, Outcome: admission.TooManyWaiting, Notices: g.render(d.Refusal)}
	}
	return ev
}

// gather adds the facts about an event to f. It returns the pairing code that the sender
// is offered, if any.
func (g *Gateway) gather(ctx context.Context, in chat.Inbound, f *admission.Facts) (offer *pairing.Offer) {
	f.Grant, f.Denial = g.parts.People.Access.Check(in)
	if !f.Grant.Valid() {
		if !f.Denial.OfferPairing {
			return nil
		}
		offer, f.PairingRule = g.parts.People.Pairing.Offer(pairing.Person{Platform: in.Address.Platform, ID: in.Sender.ID, Name: in.Sender.Name, To: in.Address})
		if offer != nil {
			f.PairingCode = offer.Code
		}
		return offer
	}
	by, key := f.Grant.Principal(), g.rules.Session(in)
	l := inbox.LaneOf(key)
	f.Waiting, f.Active, f.Paused = g.parts.Store.Waiting(l), g.parts.Turns.Lanes.Active(l), g.parts.Turns.Pause.Paused()
	f.Free = g.parts.Turns.Lanes.HasCapacity() && !f.Paused
	f.Unattended = g.parts.Accounts.Profile(in.Address.Platform).Unattended
	if in.Kind != chat.Message {
		return nil
	}
	f.Question, f.Approvals = g.parts.Turns.Questions.HasQuestion(l), g.parts.Turns.Questions.PendingApprovals(l)
	f.MayChange = g.mayChangeTurn(l, by, in.Address)
	if name, args, ok := g.rules.UnknownCommand(in, by.Level); ok {
		_, f.Skill = g.parts.Commands.Skill("", name, args)
	}
	if f.Active || f.Waiting > 0 {
		rec, _, err := g.parts.Store.Session(ctx, key)
		if err != nil {
			g.parts.Settings.Log.Error("cannot load busy mode", zap.String("session", string(key)), zap.Error(err))
		}
		f.Mode = inbox.Mode(rec.Settings.BusyMode)
	}
	return nil
}

// mayChangeTurn reports whether a message may stop the running turn of lane l, or become
// part of it. In a shared conversation a guest does so with their own turns only; the
// message then waits.
func (g *Gateway) mayChangeTurn(l inbox.Lane, by access.Principal, at chat.Address) bool {
	return by.Level >= access.Member || !g.rules.Policy.Shared(at) || g.parts.Turns.Active.IsOnlyAuthor(l, by)
}

// render returns the rows of a notice, none if it is nil.
func (g *Gateway) render(n *admission.Notice) []outbox.Row {
	if n == nil {
		return nil
	}
	return g.parts.Delivery.Render(n.Text, n.Draft)
}

// settle ends what decide has reserved for an event. stored reports whether the store has
// its notices and edits.
func (g *Gateway) settle(ev event, stored bool) {
	switch {
	case ev.offer != nil && stored:
		ev.offer.Issued()
	case ev.offer != nil:
		ev.offer.Cancel()
	case ev.acknowledged && !stored:
		g.acks.release(ev.admission.Entry.Lane)
	}
}

// announce starts the work on an event that was offered to the store with the result a:
// it sends its notices, and wakes the lane of an entry that waits.
func (g *Gateway) announce(ev event, a store.Acceptance) {
	e, notices := ev.admission.Entry, ev.admission.Notices
	if e.State == inbox.Done && e.Outcome.Result == inbox.Silent && e.Inbound.Kind == chat.Message { // also a repeat of it
		g.parts.Accounts.Dismiss(e.Inbound)
	}
	if !a.IsNew {
		g.reportReceived(e, observe.Duplicate)
		g.parts.Settings.Log.Debug("duplicate event", zap.Stringer("entry", a.ID), zap.String("platform", string(e.Inbound.Address.Platform)))
		return
	}
	e.ID = a.ID
	if limit := ev.admission.Limit; a.Refused {
		e.State, e.Outcome, notices = inbox.Done, &limit.Outcome, limit.Notices
	}
	g.reportReceived(e, observe.Accepted)
	g.parts.Delivery.WakeRows(notices)
	if e.Inbound.Kind == chat.Callback {
		text := ""
		if e.State == inbox.Done && e.Grant.Valid() { // people without access get no words
			text = g.rules.Printer.T("This button does nothing.")
		}
		g.parts.Accounts.AnswerCallback(e.Inbound, text)
	}
	switch {
	case e.State == inbox.Done || e.Inbound.Kind == chat.Edit:
	default:
		joined := g.parts.Turns.Runner.PartArrived(e.Lane)
		switch {
		case e.Exclusive || joined:
		case e.Mode == inbox.Steer:
			g.parts.Turns.Questions.MessageReceived(e.Lane)
		case e.Mode != inbox.Queue && g.mayChangeTurn(e.Lane, e.Grant.Principal(), e.Inbound.Address):
			g.parts.Turns.Runner.Supersede(e.Lane, e.ID)
		}
		g.parts.Turns.Lanes.Wake(e.Lane)
	}
}

// reportReceived emits the result of an event that an adapter offered.
func (g *Gateway) reportReceived(e inbox.Entry, result observe.AcceptResult) {
	a := observe.EventReceived{Platform: e.Inbound.Address.Platform, Result: result}
	switch {
	case result != observe.Accepted || e.State != inbox.Done:
	case e.Outcome.Result == inbox.Failed:
		a.Result = observe.QueueFull
	default:
		a.Result, a.Rule = observe.Denied, e.Outcome.Reason
	}
	g.parts.Settings.Observe(a)
}

// minAckInterval is the minimum time between two acknowledgements in one lane.
const minAckInterval = 30 * time.Second

// An ackLimiter limits acknowledgements to one per lane and minAckInterval.
type ackLimiter struct {
	mu         sync.Mutex // guards lastSentAt
	lastSentAt map[inbox.Lane]time.Time
}

// reserve reports whether an acknowledgement may be sent in l now, and records it.
func (a *ackLimiter) reserve(l inbox.Lane) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for l, at := range a.lastSentAt {
		if now.Sub(at) >= minAckInterval {
			delete(a.lastSentAt, l)
		}
	}
	if _, ok := a.lastSentAt[l]; ok {
		return false
	}
	a.lastSentAt[l] = now
	return true
}

// release takes back a reservation for an acknowledgement that was not stored.
func (a *ackLimiter) release(l inbox.Lane) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.lastSentAt, l)
}

// storeFailureText notifies users whose messages cannot be stored. They need not send
// again, because the platform or the adapter offers the messages again.
const storeFailureText = "⚠️ I cannot store what you write at the moment; my disk may be full. It is not lost: I answer as soon as I can store it, and you need not send it again."

// outageNoticeInterval is the minimum time between two outage notices to one chat, if messages
// were accepted in between.
const outageNoticeInterval = 10 * time.Minute

// A storeOutage records which chats were notified that messages cannot be stored.
type storeOutage struct {
	mu       sync.Mutex // guards notified
	notified map[chat.Address]time.Time
}

// allow reports whether the chat is to be notified now, and records it.
func (o *storeOutage) allow(at chat.Address) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.notified[at]; ok {
		return false
	}
	o.notified[at] = time.Now()
	return true
}

// recordRecovery records that messages are accepted again. It deletes notices older than
// outageNoticeInterval, so that the next outage is announced.
func (o *storeOutage) recordRecovery() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, notifiedAt := range o.notified {
		if time.Since(notifiedAt) >= outageNoticeInterval {
			delete(o.notified, at)
		}
	}
}

// notifyStoreFailure notifies the senders of messages that could not be stored, each
// chat once per outage. The notices bypass the outbox, which cannot be written either.
// It does nothing if ctx is canceled: an adapter that gave up is not an outage.
func (g *Gateway) notifyStoreFailure(ctx context.Context, admissions []store.Admission) {
	if ctx.Err() != nil {
		return
	}
	for _, a := range admissions {
		e := a.Entry
		if e.State != inbox.Waiting || e.Inbound.Kind != chat.Message || e.Occurrence != nil || !g.storeOutage.allow(e.Inbound.Address) {
			continue
		}
		for _, row := range g.parts.Delivery.Render(g.parts.Settings.Printer.T(storeFailureText), delivery.Draft{To: e.Inbound.Address, ReplyTo: e.Inbound.ID, Purpose: chat.PurposeFailure}) {
			m := row.Msg
			m.ID = "unstored " + e.Inbound.IdempotencyKey // the same for every repeat
			g.parts.Accounts.SendOutageNotice(m)
		}
	}
}
