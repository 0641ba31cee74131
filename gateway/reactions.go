package gateway

import (
	"context"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// canReact reports whether a implements chat.Reactor.
func canReact(a chat.Adapter) bool {
	_, ok := a.(chat.Reactor)
	return ok
}

// react enqueues a reaction on a user's message that shows its state. Nothing waits
// for it, and it may be dropped.
func (g *Gateway) react(in chat.Inbound, reaction chat.Reaction) {
	account := in.Address.AccountID()
	reactor, ok := g.opts.Adapters[account].(chat.Reactor)
	if !ok || in.Kind != chat.Message {
		return
	}
	g.reactions.add(account, func(ctx context.Context) {
		if err := reactor.React(ctx, in.Address, in.ID, reaction); err != nil && ctx.Err() == nil {
			g.opts.Log.Debug("cannot set reaction", zap.String("platform", string(account.Platform)), zap.Error(err))
		}
	})
}
