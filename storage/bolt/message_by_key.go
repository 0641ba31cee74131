package bolt

import (
	"context"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// MessageByKey returns the story of the message that was accepted from an account
// under an idempotency key. ok is false if the key is not known, or not any
// more. Unlike Why it does not search.
func (s *Store) MessageByKey(ctx context.Context, on chat.Account, key string) (c inbox.MessageHistory, ok bool, err error) {
	err = s.view(ctx, "look up a key", func(r reader) error {
		var before keyRecord
		known, err := r.load(bKeys, seenKey(chat.Address{Platform: on.Platform, Account: on.Name}, key), &before)
		if err != nil || !known {
			return err
		}
		var e inbox.Entry
		if e, ok, err = r.entry(before.ID); err == nil && ok {
			c = r.messageHistory(e)
		}
		return err
	})
	return c, ok, err
}
