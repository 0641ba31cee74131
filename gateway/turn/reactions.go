package turn

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// react sets the reaction on the messages of the turn. Commands get none.
func (t *turn) react(reaction chat.Reaction) {
	if t.runner.opts.React == nil {
		return
	}
	for _, e := range t.claim.Entries {
		if !e.Exclusive {
			t.runner.opts.React(e.Inbound, reaction)
		}
	}
}

// showOutcome sets the reaction for the outcome of the turn.
func (t *turn) showOutcome(o inbox.Outcome) {
	switch o.Result {
	case inbox.Replied:
		t.react(chat.ReactionAnswered)
	case inbox.Failed, inbox.Cancelled:
		t.react(chat.ReactionFailed)
	}
}
