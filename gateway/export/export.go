// Package export writes a conversation as Markdown or as JSON Lines. Archived messages
// come first and are marked; thinking blocks are omitted and secrets are masked. Read
// returns a Conversation, whose methods write it.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/session"
)

// A Store provides the data of an export.
type Store interface {
	// Rows returns the transcript rows of span.
	Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error)
	// Calls returns the ledger records of the session's model calls, from number from
	// on.
	Calls(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
}

// A Message is one transcript row.
type Message struct {
	Row      int       // row number
	Archived bool      // removed from the active transcript by a compaction
	At       time.Time // zero if unknown
	llm.Message
}

// A Conversation is a session with all its messages, including archived ones.
type Conversation struct {
	Record   session.Record
	Messages []Message
	// Mask masks secrets; nil masks nothing.
	Mask func(string) string
}

var errMissingRows = errors.New("transcript rows missing in store")

// Read reads all messages of the session as of r. mask masks secrets when the
// conversation is written; nil masks nothing.
func Read(ctx context.Context, s Store, r session.Record, mask func(string) string) (Conversation, error) {
	c := Conversation{Record: r, Mask: mask}
	spans := append(r.Archive[:len(r.Archive):len(r.Archive)], session.Span{From: r.Start, To: r.Start + r.Messages})
	for _, span := range spans {
		rows, err := s.Rows(ctx, r.ID, span)
		if err == nil && len(rows) < span.To-span.From {
			err = errMissingRows
		}
		if err != nil {
			return c, fmt.Errorf("export %s: %w", r.ID, err)
		}
		for i, row := range rows {
			m := Message{Row: span.From + i, Archived: span.From+i < r.Start}
			if err := json.Unmarshal(row, &m.Message); err != nil {
				return c, fmt.Errorf("export %s, message %d: %w", r.ID, m.Row, err)
			}
			c.Messages = append(c.Messages, m)
		}
	}
	calls, err := s.Calls(ctx, r.ID, 0)
	if err != nil {
		return c, fmt.Errorf("export %s: %w", r.ID, err)
	}
	return c, c.setTimes(calls)
}

// setTimes sets the times of the answers after the last compaction: a call with n
// messages produced message n. Rows have no times themselves.
func (c Conversation) setTimes(calls []json.RawMessage) error {
	at := make(map[int]time.Time)
	minMessages := c.Record.Messages
	for i := len(calls) - 1; i >= 0; i-- {
		var rec ledger.Record
		if err := json.Unmarshal(calls[i], &rec); err != nil {
			return fmt.Errorf("export %s, call %d: %w", c.Record.ID, i, err)
		}
		if rec.Messages > minMessages { // before a compaction
			break
		}
		if minMessages = rec.Messages; at[rec.Messages].IsZero() {
			at[rec.Messages] = rec.CalledAt
		}
	}
	for i, m := range c.Messages {
		if m.Role == llm.Assistant && !m.Archived {
			c.Messages[i].At = at[m.Row-c.Record.Start]
		}
	}
	return nil
}

// maskText masks secrets in s.
func (c Conversation) maskText(s string) string {
	if c.Mask == nil {
		return s
	}
	return c.Mask(s)
}
