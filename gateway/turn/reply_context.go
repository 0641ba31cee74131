package turn

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// about names the messages of the turn for which keep says yes, or all of them.
func (t *turn) about(keep func(inbox.Entry) bool) []string {
	ids := make([]string, 0, len(t.claim.Entries))
	for _, e := range t.claim.Entries {
		if keep == nil || keep(e) {
			ids = append(ids, e.Inbound.ID)
		}
	}
	return ids
}

// listened reports whether the model has heard of e.
func (t *turn) listened(e inbox.Entry) bool { return e.ID <= t.lastSeen }

// cost is what the turn's model calls came to.
func (t *turn) cost() *chat.Usage {
	return &chat.Usage{Prompt: t.tokenUsage.Prompt(), Cached: t.tokenUsage.CacheRead, Output: t.tokenUsage.Output}
}
