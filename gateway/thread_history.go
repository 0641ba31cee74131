package gateway

import (
	"context"
	"time"

	"hermesd/gateway/chat"
)

// threadHistory returns the earlier messages of the thread of in, none if the adapter
// does not implement chat.ThreadReader.
func (g *Gateway) threadHistory(ctx context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error) {
	h, ok := g.opts.Adapters[in.Address.AccountID()].(chat.ThreadReader)
	if !ok {
		return nil, nil
	}
	return h.MessagesBefore(ctx, in, since)
}
