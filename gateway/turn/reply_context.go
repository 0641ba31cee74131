package turn

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// messageIDs returns the platform IDs of the turn's messages for which keep returns
// true; a nil keep selects all.
func (t *turn) messageIDs(keep func(inbox.Entry) bool) []string {
	ids := make([]string, 0, len(t.claim.Entries))
	for _, e := range t.claim.Entries {
		if keep == nil || keep(e) {
			ids = append(ids, e.Inbound.ID)
		}
	}
	return ids
}

// isSeen reports whether the model has received e.
func (t *turn) isSeen(e inbox.Entry) bool { return e.ID <= t.lastSeen }

// chatUsage returns the usage of the turn's model calls.
func (t *turn) chatUsage() *chat.Usage {
	return &chat.Usage{Prompt: t.tokenUsage.Prompt(), Cached: t.tokenUsage.CacheRead, Output: t.tokenUsage.Output}
}
