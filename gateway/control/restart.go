package control

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

// Restart restarts the process and stores the chat that is notified afterwards. The
// /restart command is already done, so it cannot run twice.
func (ctl *Control) Restart(from chat.Address) {
	log := ctl.parts.Options.Log
	raw, err := json.Marshal(from)
	if err == nil {
		err = ctl.parts.Store.SetValue(context.Background(), restartKey, raw)
	}
	if err != nil {
		log.Error("cannot store restart request", zap.Error(err))
	}
	log.Info("restart requested", zap.Stringer("chat", from))
	ctl.parts.Host.Restart()
}

// AnnounceRestart notifies the chat that requested a restart that it is done.
func (ctl *Control) AnnounceRestart(ctx context.Context) error {
	store, o := ctl.parts.Store, ctl.parts.Options
	raw, err := store.Value(ctx, restartKey)
	if err != nil || raw == nil {
		return err
	}
	if err := store.SetValue(ctx, restartKey, nil); err != nil { // before sending: a lost notice is better than one at each start
		return err
	}
	var to chat.Address
	if err := json.Unmarshal(raw, &to); err != nil {
		o.Log.Error("cannot decode restart request", zap.Error(err))
		return nil
	}
	return ctl.parts.Runtime.Delivery.SendNotice(ctx, o.Printer.T("I am back: hermesd %s.", o.Version), delivery.Draft{To: to, Role: outbox.Notice})
}
