package bolt

import (
	"context"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// MessageByKey returns the history of the message that was accepted from an
// account under an idempotency key; ok is false if the key is unknown or no
// longer stored. Unlike MessageHistory it does not search.
func (s *Store) MessageByKey(ctx context.Context, account chat.Account, key string) (c inbox.MessageHistory, ok bool, err error) {
	err = s.view(ctx, "find message by key", func(r reader) error {
		var rec keyRecord
		known, err := r.load(bKeys, idempotencyKey(chat.Address{Platform: account.Platform, Account: account.Name}, key), &rec)
		if err != nil || !known {
			return err
		}
		var e inbox.Entry
		if e, ok, err = r.entry(rec.ID); err == nil && ok {
			c = r.messageHistory(e)
		}
		return err
	})
	return c, ok, err
}
