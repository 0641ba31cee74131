package gateway

import (
	"context"
	"sync"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
)

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
func (g *Gateway) notifyStoreFailure(ctx context.Context, admissions []inbox.Admission) {
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
