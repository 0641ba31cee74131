package discord

import "hermesd/gateway/chat"

// Dismiss implements chat.Dismisser: a command that ends by a rule is not
// acknowledged, so that Discord itself says that nobody answers it, and no
// message to its place takes the place of that answer.
func (a *Adapter) Dismiss(in chat.Inbound) {
	n, ok := a.answers.byID(in.IdempotencyKey)
	if !ok {
		return
	}
	a.answers.drop(n.ID)
	n.told()
}
