package discord

import "hermesd/gateway/chat"

// Dismiss implements chat.Dismisser. A command that a rule ignores is not
// acknowledged, so that Discord itself reports to the user that there is no
// answer, and no other message to the address is used as its answer.
func (a *Adapter) Dismiss(in chat.Inbound) {
	n, ok := a.answers.byID(in.IdempotencyKey)
	if !ok {
		return
	}
	a.answers.drop(n.ID)
	n.told()
}
