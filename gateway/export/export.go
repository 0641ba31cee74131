// Package export writes a conversation down for people and for programs: as
// Markdown, or as one JSON object a line. What was archived comes first and is
// marked; what a model thought is left out, and secrets are masked.
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

// A Store is what an export is read from.
type Store interface {
	Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error)
	Calls(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
}

// A Message is one row of a conversation.
type Message struct {
	Row      int       // its number
	Archived bool      // a compaction took it out
	At       time.Time // zero if it is not known
	llm.Message
}

// A Conversation is a session with all that was ever said in it.
type Conversation struct {
	Record   session.Record
	Messages []Message
	// Mask hides secrets; nil hides none.
	Mask func(string) string
}

var errShort = errors.New("messages are missing in the store")

// Read reads all of a session. What somebody writes to it meanwhile is not in it.
// mask hides secrets in what is written; nil hides none.
func Read(ctx context.Context, s Store, r session.Record, mask func(string) string) (Conversation, error) {
	c := Conversation{Record: r, Mask: mask}
	spans := append(r.Archive[:len(r.Archive):len(r.Archive)], session.Span{From: r.Start, To: r.Start + r.Messages})
	for _, span := range spans {
		rows, err := s.Rows(ctx, r.ID, span)
		if err == nil && len(rows) < span.To-span.From {
			err = errShort
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
	return c, c.date(calls)
}

// date gives times to the answers that came after the last compaction: a call
// that was sent n messages made number n. Rows have no times of their own.
func (c Conversation) date(calls []json.RawMessage) error {
	at := make(map[int]time.Time)
	least := c.Record.Messages
	for i := len(calls) - 1; i >= 0; i-- {
		var rec ledger.Record
		if err := json.Unmarshal(calls[i], &rec); err != nil {
			return fmt.Errorf("export %s, call %d: %w", c.Record.ID, i, err)
		}
		if rec.Messages > least { // before a compaction
			break
		}
		if least = rec.Messages; at[rec.Messages].IsZero() {
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

// mask hides secrets in a text.
func (c Conversation) mask(s string) string {
	if c.Mask == nil {
		return s
	}
	return c.Mask(s)
}
