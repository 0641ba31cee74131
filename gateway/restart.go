package gateway

import (
	"context"
	"encoding/json"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/outbox"
)

// restartKey is where it is kept who asked for the restart that is under way.
const restartKey = "restart"

// restart has the process start again, and notes where to say that it is back.
// The command that asked is done by now, so it cannot run twice.
func (g *Gateway) restart(from chat.Address) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = g.opts.Store.SetValue(context.Background(), restartKey, raw)
	}
	if err != nil {
		g.opts.Log.Error("restart", zap.Error(err))
	}
	g.opts.Log.Info("a person asked for a restart", zap.Stringer("chat", from))
	g.opts.Restart()
}

// announceRestartDone says where a restart was asked for that it is done.
func (g *Gateway) announceRestartDone(ctx context.Context) error {
	raw, err := g.opts.Store.Value(ctx, restartKey)
	if err != nil || raw == nil {
		return err
	}
	if err := g.opts.Store.SetValue(ctx, restartKey, nil); err != nil { // first: a notice that is lost is better than one at each start
		return err
	}
	var to chat.Address
	if err := json.Unmarshal(raw, &to); err != nil {
		g.opts.Log.Error("restart note", zap.Error(err))
		return nil
	}
	return g.delivery.SendNotice(ctx, g.opts.Printer.T("I am back: hermesd %s.", g.opts.Version), delivery.Draft{To: to, Role: outbox.Notice})
}
