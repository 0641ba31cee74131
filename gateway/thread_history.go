package gateway

import (
	"context"
	"time"

	"hermesd/gateway/chat"
)

// threadHistory asks the platform of in what was said in its thread. Platforms that
// cannot tell have nothing to tell.
func (g *Gateway) threadHistory(ctx context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error) {
	h, ok := g.opts.Adapters[in.Address.AccountID()].(chat.ThreadReader)
	if !ok {
		return nil, nil
	}
	return h.MessagesBefore(ctx, in, since)
}
