package gateway

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
)

// storeFailureText is what people are told whose messages the store does not take. They
// need not write again: the platform, or the adapter, offers them again.
const storeFailureText = "⚠️ I cannot store what you write at the moment; my disk may be full. It is not lost: I answer as soon as I can store it, and you need not send it again."

// outageAgain is how long after it was told an outage is told again, if messages
// were taken in between.
const outageAgain = 10 * time.Minute

// An storeOutage remembers who was told that messages cannot be stored.
type storeOutage struct {
	mu       sync.Mutex // guards told
	notified map[chat.Address]time.Time
}

// due reports whether somebody is to be told now, and counts it.
func (o *storeOutage) due(at chat.Address) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.notified[at]; ok {
		return false
	}
	o.notified[at] = time.Now()
	return true
}

// over notes that messages are taken again. It forgets who was told long ago, so
// that the next outage is told.
func (o *storeOutage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, when := range o.notified {
		if time.Since(when) >= outageAgain {
			delete(o.notified, at)
		}
	}
}

// speaks returns what reports whether people at an account hear of an outage by a
// message. Who writes at a terminal or through the API gets an error at once.
func speaks(adapters map[chat.Account]chat.Adapter) func(chat.Adapter) bool {
	return func(a chat.Adapter) bool {
		return !a.Capabilities().RawMarkdown && a != adapters[chat.Account{Platform: chat.Console}]
	}
}

// notifyStoreFailure tells those who wrote that it cannot be stored, each once in an outage.
// What they are told goes past the outbox, which cannot be written either. An
// adapter that gave up is no outage.
func (g *Gateway) notifyStoreFailure(ctx context.Context, entries []inbox.Entry) {
	if ctx.Err() != nil {
		return
	}
	for _, e := range entries {
		on := e.Inbound.Address.AccountID()
		if e.State != inbox.Waiting || e.Inbound.Kind != chat.Message || e.Occurrence != nil || !g.outage.due(e.Inbound.Address) {
			continue
		}
		for _, row := range g.delivery.Render(g.opts.Printer.T(storeFailureText), delivery.Draft{To: e.Inbound.Address, ReplyTo: e.Inbound.ID, Purpose: chat.PurposeFailure}) {
			m := row.Msg
			m.ID = "unstored " + e.Inbound.IdempotencyKey // a repeat of it is known as one
			g.outages.add(on, func(ctx context.Context) {
				if _, err := g.opts.Adapters[on].Send(ctx, m); err != nil {
					g.opts.Log.Warn("somebody is not told that messages cannot be stored", zap.String("platform", string(on.Platform)), zap.Error(err))
				}
			})
		}
	}
}
