package turn

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// react shows on the messages of the turn what has become of them.
func (t *turn) react(is chat.Reaction) {
	if t.runner.opts.React == nil {
		return
	}
	for _, e := range t.claim.Entries {
		if !e.Exclusive {
			t.runner.opts.React(e.Inbound, is)
		}
	}
}

// settled shows how the turn ended.
func (t *turn) settled(o inbox.Outcome) {
	switch o.Result {
	case inbox.Replied:
		t.react(chat.ReactionAnswered)
	case inbox.Failed, inbox.Cancelled:
		t.react(chat.ReactionFailed)
	}
}
