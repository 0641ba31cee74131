package gateway

import (
	"context"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// reacts reports whether an account can put marks on messages.
func reacts(a chat.Adapter) bool {
	_, ok := a.(chat.Reactor)
	return ok
}

// react asks for a mark on a person's message that says what has become of it.
// Marks are decoration: nothing waits for them.
func (g *Gateway) react(in chat.Inbound, is chat.Reaction) {
	on := in.Address.AccountID()
	reactor, ok := g.opts.Adapters[on].(chat.Reactor)
	if !ok || in.Kind != chat.Message {
		return
	}
	g.marks.add(on, func(ctx context.Context) {
		if err := reactor.React(ctx, in.Address, in.ID, is); err != nil && ctx.Err() == nil {
			g.opts.Log.Debug("reaction", zap.String("platform", string(on.Platform)), zap.Error(err))
		}
	})
}
