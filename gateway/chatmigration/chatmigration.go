// Package chatmigration remembers which chats have got a new id, so that what people
// have written down by the old one goes on naming them: allowlists, prompts,
// home channels, targets.
package chatmigration

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"hermesd/gateway/chat"
)

// Store keep small values over restarts.
type Store interface {
	// Value returns the value kept under key, nil if there is none.
	Value(ctx context.Context, key string) ([]byte, error)
	SetValue(ctx context.Context, key string, v []byte) error
}

// key is where the moves are kept.
const key = "moves"

// maxCount bounds how many moves are remembered; the oldest are forgotten.
const maxCount = 1000

// A move is one chat that has got a new id.
type move struct {
	From chat.Address `json:"from"`
	To   chat.Address `json:"to"`
}

// A Registry holds the moves. Its methods may be called from any goroutine; a nil
// Book holds none.
type Registry struct {
	store Store
	mu    sync.RWMutex // guards list
	list  []move       // oldest first
}

// Open reads the book that store keeps.
func Open(ctx context.Context, store Store) (*Registry, error) {
	b := &Registry{store: store}
	raw, err := store.Value(ctx, key)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &b.list)
	}
	if err != nil {
		return nil, fmt.Errorf("chats that have moved: %w", err)
	}
	return b, nil
}

// Add notes that the chat of from is the chat of to now. It returns once that is
// kept. To be told twice is to be told once.
func (b *Registry) Add(ctx context.Context, from, to chat.Address) error {
	if b == nil || from.WithoutThread() == to.WithoutThread() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]move, 0, len(b.list)+1)
	for _, m := range b.list {
		switch {
		case m.From.WithoutThread() == from.WithoutThread() && m.To.WithoutThread() == to.WithoutThread():
			return nil
		case m.From.WithoutThread() == from.WithoutThread(), m.From.WithoutThread() == to.WithoutThread(): // a chat that comes back has not left
		default:
			list = append(list, m)
		}
	}
	list = append(list, move{place(from), place(to)})
	list = list[max(0, len(list)-maxCount):]
	raw, err := json.Marshal(list)
	if err == nil {
		err = b.store.SetValue(ctx, key, raw)
	}
	if err != nil {
		return fmt.Errorf("keep that a chat has moved: %w", err)
	}
	b.list = list
	return nil
}

// place is the chat of an address, without the thread.
func place(at chat.Address) chat.Address {
	at.Thread = ""
	return at
}

// Current returns the address that at has become.
func (b *Registry) Current(at chat.Address) chat.Address {
	if b == nil {
		return at
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for range b.list { // each move leads on once
		i := b.leaving(at.WithoutThread())
		if i < 0 {
			break
		}
		m := b.list[i]
		if at.Kind == m.From.Kind {
			at.Kind = m.To.Kind
		}
		at.Scope, at.Chat = m.To.Scope, m.To.Chat
	}
	return at
}

func (b *Registry) leaving(room chat.Address) int {
	for i, m := range b.list {
		if m.From.WithoutThread() == room {
			return i
		}
	}
	return -1
}

// Previous returns the ids that the chat of at had before, the newest first.
func (b *Registry) Previous(at chat.Address) (ids []string) {
	if b == nil {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	room := at.WithoutThread()
	for i := len(b.list) - 1; i >= 0; i-- { // who came last has left first
		if m := b.list[i]; m.To.WithoutThread() == room {
			ids, room = append(ids, m.From.Chat), m.From.WithoutThread()
		}
	}
	return ids
}
