package gateway

import (
	"context"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
)

// deny ends the entry of an unauthorized event. If the denial allows pairing, it
// requests a pairing code for the sender, which wake sends after the entry is stored.
func (g *Gateway) deny(e inbox.Entry, d access.Denial) inbox.Entry {
	if !d.OfferPairing || g.opts.Pairing == nil {
		return ignoreEntry(e, d.Rule)
	}
	rule := g.opts.Pairing.Request(unknownSender(e.Inbound))
	e = ignoreEntry(e, rule)
	if rule == pairing.RuleOffered {
		e.Outcome.Result = inbox.Replied
	}
	return e
}

// awaitsPairingCode reports whether the sender of e is to get a pairing code.
func awaitsPairingCode(e inbox.Entry) bool {
	return e.Outcome != nil && e.Outcome.Result == inbox.Replied && e.Outcome.Reason == pairing.RuleOffered
}

func unknownSender(in chat.Inbound) pairing.Person {
	return pairing.Person{Platform: in.Address.Platform, ID: in.Sender.ID, Name: in.Sender.Name, To: in.Address}
}

// cancelPairing cancels the pairing requests of entries that were not accepted or are
// duplicates.
func (g *Gateway) cancelPairing(entries ...inbox.Entry) {
	for _, e := range entries {
		if awaitsPairingCode(e) {
			g.opts.Pairing.CancelRequest(unknownSender(e.Inbound))
		}
	}
}

// sendPairingCode issues a pairing code and sends it to the sender of e. The code is
// stored before it is sent; if either fails, the sender's next message gets a new one.
func (g *Gateway) sendPairingCode(ctx context.Context, e inbox.Entry) {
	p := unknownSender(e.Inbound)
	code, err := g.opts.Pairing.IssueCode(ctx, p)
	if err == nil {
		text := g.opts.Printer.T("You are not authorized, so I did not process your message. To request access, send this code to the operator:\n\n`%s`\n\n"+
			"It expires in one hour and works only for you. They enter it with `hermesd pairing approve %s %s`.", code, p.Platform, code)
		if err = g.delivery.SendNotice(ctx, text, delivery.Draft{To: e.Inbound.Address, ReplyTo: e.Inbound.ID, Secret: true}); err != nil {
			if revokeErr := g.opts.Pairing.RevokeCode(ctx, p); revokeErr != nil {
				g.opts.Log.Error("cannot revoke pairing code", zap.Stringer("entry", e.ID), zap.Error(revokeErr))
			}
		}
	}
	if err != nil {
		g.opts.Log.Error("cannot send pairing code", zap.Stringer("entry", e.ID), zap.String("platform", string(p.Platform)), zap.Error(err))
	}
}
