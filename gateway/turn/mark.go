package turn

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// mark shows on the messages of the turn what has become of them.
func (t *turn) mark(is chat.Reaction) {
	if t.r.o.Mark == nil {
		return
	}
	for _, e := range t.c.Entries {
		if !e.Exclusive {
			t.r.o.Mark(e.Inbound, is)
		}
	}
}

// settled shows how the turn ended.
func (t *turn) settled(o inbox.Outcome) {
	switch o.Result {
	case inbox.Replied:
		t.mark(chat.ReactionAnswered)
	case inbox.Failed, inbox.Cancelled:
		t.mark(chat.ReactionFailed)
	}
}
