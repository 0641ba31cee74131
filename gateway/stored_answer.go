package gateway

import (
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// StoredAnswer tells from the story of a message what its sender can be told again,
// where answers are asked for (chat.Features.Raw): the answer, or else why there
// is none. ended says that nothing more will come.
func StoredAnswer(c inbox.MessageHistory) (text, why string, ended bool) {
	o := c.Entry.Outcome
	if o == nil {
		return "", "", false
	}
	var failure string
	for _, r := range c.Rows {
		switch a := r.Msg.ReplyContext; {
		case a == nil:
		case a.Purpose == chat.PurposeAnswer:
			text = r.Msg.Text.Text
		case a.Purpose == chat.PurposeFailure:
			failure = r.Msg.Text.Text
		}
	}
	switch {
	case o.Result == inbox.Replied && o.MergedInto != 0:
		return "", "a newer message took its place, and what it says is answered there", true
	case o.Result == inbox.Replied:
		return text, "", true
	case failure != "":
		return "", strings.TrimSuffix(failure, "."), true
	}
	return "", strings.TrimSuffix(strings.TrimSpace(string(o.Result)+" ("+o.Reason+")"), "."), true
}
