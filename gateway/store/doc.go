package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/session"
)

// A Doc is a T in its stored form, JSON, byte for byte. Stores do not decode it.
type Doc[T any] []byte

// MarshalJSON returns the bytes of d.
func (d Doc[T]) MarshalJSON() ([]byte, error) { return json.RawMessage(d).MarshalJSON() }

// UnmarshalJSON sets d to a copy of raw.
func (d *Doc[T]) UnmarshalJSON(raw []byte) error { return (*json.RawMessage)(d).UnmarshalJSON(raw) }

// Decode returns what d holds.
func (d Doc[T]) Decode() (v T, err error) {
	err = json.Unmarshal(d, &v)
	return v, err
}

// Decode returns what docs hold, the first of which has the number first.
func Decode[T any](docs []Doc[T], first int) ([]T, error) {
	list := make([]T, len(docs))
	for i, d := range docs {
		if err := json.Unmarshal(d, &list[i]); err != nil {
			return nil, fmt.Errorf("number %d: %w", first+i, err)
		}
	}
	return list, nil
}

// LoadPrompt returns the cached prompt of a session.
func LoadPrompt(ctx context.Context, s Sessions, id session.ID) (p prompt.Prefix, err error) {
	doc, err := s.Prompt(ctx, id)
	if err == nil {
		p, err = doc.Decode()
	}
	if err != nil {
		return p, fmt.Errorf("load prompt of %s: %w", id, err)
	}
	return p, nil
}

// LoadCalls returns the ledger of a session from number from on, as far as it is still
// stored.
func LoadCalls(ctx context.Context, s Sessions, id session.ID, from int) (calls []ledger.Record, err error) {
	docs, err := s.Calls(ctx, id, from)
	if err == nil {
		calls, err = Decode(docs, from+1)
	}
	if err != nil {
		return nil, fmt.Errorf("load calls of %s: %w", id, err)
	}
	return calls, nil
}

// LoadMessages returns the messages of a session with the row numbers of span. That one
// does not exist is an error.
func LoadMessages(ctx context.Context, s Sessions, id session.ID, span session.Span) (messages []llm.Message, err error) {
	docs, err := s.Rows(ctx, id, span)
	if err == nil && len(docs) < span.To-span.From {
		err = errMissingRows
	}
	if err == nil {
		messages, err = Decode(docs, span.From)
	}
	if err != nil {
		return nil, fmt.Errorf("load messages %d to %d of %s: %w", span.From, span.To, id, err)
	}
	return messages, nil
}

var errMissingRows = errors.New("messages are missing in the store")
