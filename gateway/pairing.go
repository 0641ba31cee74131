package gateway

import (
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// deny ends the entry of an unauthorized event. If the denial allows pairing, the sender
// may be offered a pairing code.
func (g *Gateway) deny(e inbox.Entry, d access.Denial) (inbox.Entry, *pairing.Offer) {
	if !d.OfferPairing || g.opts.Pairing == nil {
		return ignoreEntry(e, d.Rule), nil
	}
	offer, rule := g.opts.Pairing.Offer(pairing.Person{Platform: e.Inbound.Address.Platform, ID: e.Inbound.Sender.ID, Name: e.Inbound.Sender.Name, To: e.Inbound.Address})
	e = ignoreEntry(e, rule)
	if offer != nil {
		e.Outcome.Result = inbox.Replied
	}
	return e, offer
}

// endOffer ends the offer of an entry, which was stored with it or not at all. o may be
// nil.
func endOffer(o *pairing.Offer, stored bool) {
	switch {
	case o == nil:
	case stored:
		o.Issued()
	default:
		o.Cancel()
	}
}

// renderPairingCode returns the message that shows the sender of e a pairing code.
func (g *Gateway) renderPairingCode(e inbox.Entry, code string) []outbox.Row {
	text := g.opts.Printer.T("You are not authorized, so I did not process your message. To request access, send this code to the operator:\n\n`%s`\n\n"+
		"It expires in one hour and works only for you. They enter it with `hermesd pairing approve %s %s`.", code, e.Inbound.Address.Platform, code)
	return g.delivery.Render(text, delivery.Draft{To: e.Inbound.Address, Role: outbox.Notice, ReplyTo: e.Inbound.ID, Secret: true})
}
