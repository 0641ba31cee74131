package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

// maxHistories is the maximum number of messages that one query returns.
const maxHistories = 100

// MessageHistory returns everything stored about the messages that id names,
// oldest first. id is the ID of an entry ("m12"), a row ("o7") or a turn, the
// platform ID of the message or of its answer, or a whole idempotency key.
func (s *Store) MessageHistory(ctx context.Context, id string) ([]store.MessageHistory, error) {
	return read(ctx, s, "find message "+id, func(r reader) ([]store.MessageHistory, error) {
		if histories, err := r.historiesByID(id); err != nil || len(histories) > 0 {
			return histories, err
		}
		return r.searchHistories(ctx, id)
	})
}

// MessageByKey returns the history of the message that was accepted from an
// account under an idempotency key; ok is false if the key is unknown or no
// longer stored. Unlike MessageHistory it does not search.
func (s *Store) MessageByKey(ctx context.Context, account chat.Account, key string) (c store.MessageHistory, ok bool, err error) {
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

// historiesByID finds messages by an ID that the daemon assigned.
func (r reader) historiesByID(id string) ([]store.MessageHistory, error) {
	if n, ok := parseID(id, "m"); ok {
		e, ok, err := r.entry(inbox.ID(n))
		if err != nil || !ok {
			return nil, err
		}
		return []store.MessageHistory{r.messageHistory(e)}, nil
	}
	if n, ok := parseID(id, "o"); ok {
		row, ok, err := r.row(outbox.ID(n))
		if err != nil || !ok {
			return nil, err
		}
		return r.rowHistories(row), nil
	}
	t, ok, err := r.turn(id)
	if err != nil || !ok {
		return nil, err
	}
	return r.turnHistories(t), nil
}

func parseID(id, prefix string) (uint64, bool) {
	if len(id) < 2 || id[:1] != prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(id[1:], 10, 64)
	return n, err == nil
}

// messageHistory returns the history of an entry, as far as it can be read.
func (r reader) messageHistory(e inbox.Entry) store.MessageHistory {
	c := store.MessageHistory{Entry: e}
	t, ok, err := r.turn(e.Turn)
	if e.Turn == "" || err != nil || !ok {
		return c
	}
	c.Trace = t.Trace
	for _, id := range t.Rows {
		if row, ok, err := r.row(id); err == nil && ok {
			c.Rows = append(c.Rows, row)
		}
	}
	return c
}

func (r reader) turnHistories(t turnRecord) []store.MessageHistory {
	var histories []store.MessageHistory
	for _, id := range t.Entries {
		if e, ok, err := r.entry(id); err == nil && ok {
			histories = append(histories, r.messageHistory(e))
		}
	}
	return histories
}

func (r reader) rowHistories(row outbox.Row) []store.MessageHistory {
	if t, ok, err := r.turn(row.Turn); row.Turn != "" && err == nil && ok {
		if histories := r.turnHistories(t); len(histories) > 0 {
			return histories
		}
	}
	return []store.MessageHistory{{Rows: []outbox.Row{row}}}
}

// searchHistories searches all stored messages for a platform ID or an
// idempotency key. Only records that contain id are decoded.
func (r reader) searchHistories(ctx context.Context, id string) ([]store.MessageHistory, error) {
	needle, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	var histories []store.MessageHistory
	err = r.searchBucket(ctx, bEntries, needle, func(content []byte) bool {
		var e inbox.Entry
		if json.Unmarshal(content, &e) == nil && (e.Inbound.ID == id || e.Inbound.IdempotencyKey == id) {
			histories = append(histories, r.messageHistory(e))
		}
		return len(histories) < maxHistories
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(histories)
	seen := make(map[string]bool)
	err = r.searchBucket(ctx, bRows, needle, func(content []byte) bool {
		var row outbox.Row
		if json.Unmarshal(content, &row) == nil && row.Receipt != nil && row.Receipt.ID == id && (row.Turn == "" || !seen[row.Turn]) {
			seen[row.Turn] = true
			histories = append(histories, r.rowHistories(row)...)
		}
		return len(histories) < maxHistories
	})
	return histories, err
}

// searchBucket calls visit for the records of a bucket that contain needle,
// newest first, until it returns false.
func (r reader) searchBucket(ctx context.Context, bucket string, needle []byte, visit func(content []byte) bool) error {
	c := r.bucket(bucket).Cursor()
	n := 0
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return fmt.Errorf("search %s: %w", bucket, context.Cause(ctx))
		}
		if !bytes.Contains(v, needle) {
			continue
		}
		content, err := checkChecksum(bucket, k, v)
		if err != nil {
			continue // Verify reports it
		}
		if !visit(content) {
			return nil
		}
	}
	return nil
}
