package control

import (
	"context"
	"encoding/json"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

// restartKey is the store key of the chat that requested the current restart.
const restartKey = "restart"

// Restart restarts the process and stores the chat that is notified afterwards. The
// /restart command is already done, so it cannot run twice.
func (ctl *Control) Restart(from chat.Address) {
	log := ctl.parts.Options.Log
	if err := store.Save(context.Background(), ctl.parts.Store, restartKey, from); err != nil {
		log.Error("cannot store restart request", zap.Error(err))
	}
	log.Info("restart requested", zap.Stringer("chat", from))
	ctl.parts.Host.Restart()
}

// AnnounceRestart notifies the chat that requested a restart that it is done.
func (ctl *Control) AnnounceRestart(ctx context.Context) error {
	s, o := ctl.parts.Store, ctl.parts.Options
	raw, err := s.Value(ctx, restartKey)
	if err != nil || raw == nil {
		return err
	}
	if err := s.SetValue(ctx, restartKey, nil); err != nil { // before sending: a lost notice is better than one at each start
		return err
	}
	var to chat.Address
	if err := json.Unmarshal(raw, &to); err != nil {
		o.Log.Error("cannot decode restart request", zap.Error(err))
		return nil
	}
	return ctl.parts.Runtime.Delivery.SendNotice(ctx, o.Printer.T("I am back: hermesd %s.", o.Version), delivery.Draft{To: to, Role: outbox.Notice})
}

// restartCommand asks for confirmation, and restarts the daemon on `/restart now` or on the
// button, which carries the time of the question.
func (ctl *Control) restartCommand(_ context.Context, c command.Call) (command.Result, error) {
	if !ctl.parts.Host.CanRestart() {
		return command.Result{Text: c.T("This daemon cannot restart itself: it ends with its terminal.")}, nil
	}
	word, asked, _ := strings.Cut(c.Args, " ")
	switch {
	case word == "":
		now := command.QuestionTime()
		return command.Result{
			Text: c.T("Restart the daemon? What runs is finished first, or goes on afterwards; no message is lost. Press the button, or say `/restart now`."),
			Buttons: [][]chat.Button{{
				{Label: c.T("Restart"), Data: "/restart now " + now},
				{Label: c.T("Cancel"), Data: "/restart cancel"},
			}},
		}, nil
	case word == "cancel":
		return command.Result{Text: c.T("The daemon goes on.")}, nil
	case word != "now":
		return command.Result{Text: c.T("I know `/restart` and `/restart now`.")}, nil
	case asked != "" && !command.IsQuestionValid(asked):
		return command.Result{Text: c.T("That question is too old. Say `/restart` again.")}, nil
	}
	return command.Result{Text: c.T("Restarting."), AfterCommit: func() { ctl.Restart(c.Inbound.Address) }}, nil
}
