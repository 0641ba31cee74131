package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// maxChains is how many messages one question is answered with.
const maxChains = 100

// MessageHistory returns what is known of one message by our id ("m12", "o7"), by the id of
// its turn, by the platform's message id (its own, or that of our answer) or by
// its whole key, oldest first.
func (s *Store) MessageHistory(ctx context.Context, id string) ([]inbox.MessageHistory, error) {
	var chains []inbox.MessageHistory
	err := s.view(ctx, "why "+id, func(r reader) error {
		var err error
		if chains, err = r.named(id); err != nil || len(chains) > 0 {
			return err
		}
		chains, err = r.mentioned(ctx, id)
		return err
	})
	return chains, err
}

// named answers for ids of ours.
func (r reader) named(id string) ([]inbox.MessageHistory, error) {
	if n, ok := number64(id, "m"); ok {
		e, ok, err := r.entry(inbox.ID(n))
		if err != nil || !ok {
			return nil, err
		}
		return []inbox.MessageHistory{r.messageHistory(e)}, nil
	}
	if n, ok := number64(id, "o"); ok {
		row, ok, err := r.row(outbox.ID(n))
		if err != nil || !ok {
			return nil, err
		}
		return r.rowChains(row), nil
	}
	t, ok, err := r.turn(id)
	if err != nil || !ok {
		return nil, err
	}
	return r.turnChains(t), nil
}

func number64(id, prefix string) (uint64, bool) {
	if len(id) < 2 || id[:1] != prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(id[1:], 10, 64)
	return n, err == nil
}

// messageHistory tells the story of an entry, as far as it can be read.
func (r reader) messageHistory(e inbox.Entry) inbox.MessageHistory {
	c := inbox.MessageHistory{Entry: e}
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

func (r reader) turnChains(t turnRecord) []inbox.MessageHistory {
	var chains []inbox.MessageHistory
	for _, id := range t.Entries {
		if e, ok, err := r.entry(id); err == nil && ok {
			chains = append(chains, r.messageHistory(e))
		}
	}
	return chains
}

func (r reader) rowChains(row outbox.Row) []inbox.MessageHistory {
	if t, ok, err := r.turn(row.Turn); row.Turn != "" && err == nil && ok {
		if chains := r.turnChains(t); len(chains) > 0 {
			return chains
		}
	}
	return []inbox.MessageHistory{{Rows: []outbox.Row{row}}}
}

// mentioned looks through all that is kept for a platform's message id or key.
// Only records that contain it are decoded.
func (r reader) mentioned(ctx context.Context, id string) ([]inbox.MessageHistory, error) {
	needle, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	var chains []inbox.MessageHistory
	err = r.search(ctx, bEntries, needle, func(content []byte) bool {
		var e inbox.Entry
		if json.Unmarshal(content, &e) == nil && (e.Inbound.ID == id || e.Inbound.IdempotencyKey == id) {
			chains = append(chains, r.messageHistory(e))
		}
		return len(chains) < maxChains
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(chains)
	seen := make(map[string]bool)
	err = r.search(ctx, bRows, needle, func(content []byte) bool {
		var row outbox.Row
		if json.Unmarshal(content, &row) == nil && row.Receipt != nil && row.Receipt.ID == id && (row.Turn == "" || !seen[row.Turn]) {
			seen[row.Turn] = true
			chains = append(chains, r.rowChains(row)...)
		}
		return len(chains) < maxChains
	})
	return chains, err
}

// search calls visit for the records of a bucket that contain needle, newest
// first, until it returns false.
func (r reader) search(ctx context.Context, bucket string, needle []byte, visit func(content []byte) bool) error {
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
			continue // Verify names it
		}
		if !visit(content) {
			return nil
		}
	}
	return nil
}
