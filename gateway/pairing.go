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

// deny ends an event that nobody is allowed to send. To a stranger who writes
// directly it promises a code, if that is wanted.
func (g *Gateway) deny(e inbox.Entry, d access.Denial) inbox.Entry {
	if !d.OfferPairing || g.opts.Pairing == nil {
		return ignored(e, d.Rule)
	}
	rule := g.opts.Pairing.Request(unknownSender(e.Inbound))
	e = ignored(e, rule)
	if rule == pairing.RuleOffered {
		e.Outcome.Result = inbox.Replied
	}
	return e
}

// awaitsCode reports whether the sender of e is to be told a code.
func awaitsCode(e inbox.Entry) bool {
	return e.Outcome != nil && e.Outcome.Result == inbox.Replied && e.Outcome.Reason == pairing.RuleOffered
}

func unknownSender(in chat.Inbound) pairing.Person {
	return pairing.Person{Platform: in.Address.Platform, ID: in.Sender.ID, Name: in.Sender.Name, To: in.Address}
}

// cancelPairing takes back what was promised for events that were not taken, or that
// were taken before.
func (g *Gateway) cancelPairing(entries ...inbox.Entry) {
	for _, e := range entries {
		if awaitsCode(e) {
			g.opts.Pairing.CancelRequest(unknownSender(e.Inbound))
		}
	}
}

// sendPairingCode tells a stranger a code. It is kept before it is told; if either cannot
// be done the person's next message gets another one.
func (g *Gateway) sendPairingCode(ctx context.Context, e inbox.Entry) {
	p := unknownSender(e.Inbound)
	code, err := g.opts.Pairing.IssueCode(ctx, p)
	if err == nil {
		text := g.opts.Printer.T("I do not know you yet, so I do not read what you write. To be let in, give this code to the person who runs me:\n\n`%s`\n\n"+
			"It holds for one hour, and for you alone. They enter it with `hermesd pairing approve %s %s`.", code, p.Platform, code)
		if err = g.delivery.SendNotice(ctx, text, delivery.Draft{To: e.Inbound.Address, ReplyTo: e.Inbound.ID, Secret: true}); err != nil {
			if back := g.opts.Pairing.RevokeCode(ctx, p); back != nil {
				g.opts.Log.Error("pairing", zap.Stringer("entry", e.ID), zap.Error(back))
			}
		}
	}
	if err != nil {
		g.opts.Log.Error("a stranger could not be told a code", zap.Stringer("entry", e.ID), zap.String("platform", string(p.Platform)), zap.Error(err))
	}
}
