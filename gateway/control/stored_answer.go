package control

import (
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// StoredAnswer returns the answer to a message from its history, or why there is none,
// for platforms on which clients fetch answers (chat.Capabilities.RawMarkdown). ended
// reports that the message is done.
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
