package gateway

import (
	"context"
	"encoding/json"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/outbox"
)

// restartKey is the store key of the chat that requested the current restart.
const restartKey = "restart"

// restart restarts the process and stores the chat that is notified afterwards. The
// /restart command is already done, so it cannot run twice.
func (g *Gateway) restart(from chat.Address) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = g.opts.Store.SetValue(context.Background(), restartKey, raw)
	}
	if err != nil {
		g.opts.Log.Error("cannot store restart request", zap.Error(err))
	}
	g.opts.Log.Info("restart requested", zap.Stringer("chat", from))
	g.opts.Restart()
}

// announceRestartDone notifies the chat that requested a restart.
func (g *Gateway) announceRestartDone(ctx context.Context) error {
	raw, err := g.opts.Store.Value(ctx, restartKey)
	if err != nil || raw == nil {
		return err
	}
	if err := g.opts.Store.SetValue(ctx, restartKey, nil); err != nil { // before sending: a lost notice is better than one at each start
		return err
	}
	var to chat.Address
	if err := json.Unmarshal(raw, &to); err != nil {
		g.opts.Log.Error("cannot decode restart request", zap.Error(err))
		return nil
	}
	return g.delivery.SendNotice(ctx, g.opts.Printer.T("I am back: hermesd %s.", g.opts.Version), delivery.Draft{To: to, Role: outbox.Notice})
}
