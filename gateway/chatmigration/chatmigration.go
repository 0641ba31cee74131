// Package chatmigration stores which chats have got a new ID, so that configuration
// that names the old ID still applies: allowlists, prompts, home channels, targets. A
// Registry translates addresses; it does not move stored data.
package chatmigration

import (
	"context"
	"fmt"
	"sync"

	"hermesd/gateway/chat"
	"hermesd/gateway/store"
)

// valueKey is the key under which the migrations are stored.
const valueKey = "moves"

// maxMigrations is the maximum number of stored migrations; the oldest are dropped.
const maxMigrations = 1000

// A migration is the change of one chat's ID.
type migration struct {
	From chat.Address `json:"from"`
	To   chat.Address `json:"to"`
}

// A Registry holds the migrations. Its methods may be called from any goroutine; a nil
// Registry is empty.
type Registry struct {
	store store.Values
	mu    sync.RWMutex // guards list
	list  []migration  // oldest first
}

// Open returns the Registry with the migrations in values.
func Open(ctx context.Context, values store.Values) (*Registry, error) {
	list, err := store.Load[[]migration](ctx, values, valueKey)
	if err != nil {
		return nil, fmt.Errorf("load chat migrations: %w", err)
	}
	return &Registry{store: values, list: list}, nil
}

// Add records that the chat of from now has the address to. It returns when that is
// stored. Adding the same migration again has no effect, and neither has adding to a
// nil Registry.
func (b *Registry) Add(ctx context.Context, from, to chat.Address) error {
	if b == nil || from.WithoutThread() == to.WithoutThread() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]migration, 0, len(b.list)+1)
	for _, m := range b.list {
		switch {
		case m.From.WithoutThread() == from.WithoutThread() && m.To.WithoutThread() == to.WithoutThread():
			return nil
		case m.From.WithoutThread() == from.WithoutThread(), m.From.WithoutThread() == to.WithoutThread(): // drop older migrations of from, and those away from to
		default:
			list = append(list, m)
		}
	}
	list = append(list, migration{withoutThread(from), withoutThread(to)})
	list = list[max(0, len(list)-maxMigrations):]
	if err := store.Save(ctx, b.store, valueKey, list); err != nil {
		return fmt.Errorf("store chat migration: %w", err)
	}
	b.list = list
	return nil
}

// withoutThread returns the address of the chat; unlike Address.WithoutThread it keeps
// the kind.
func withoutThread(at chat.Address) chat.Address {
	at.Thread = ""
	return at
}

// Current returns the present address of the chat and thread of at.
func (b *Registry) Current(at chat.Address) chat.Address {
	if b == nil {
		return at
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for range b.list { // follow each migration at most once
		i := b.indexFrom(at.WithoutThread())
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

func (b *Registry) indexFrom(from chat.Address) int {
	for i, m := range b.list {
		if m.From.WithoutThread() == from {
			return i
		}
	}
	return -1
}

// Previous returns the earlier IDs of the chat of at, the newest first.
func (b *Registry) Previous(at chat.Address) (ids []string) {
	if b == nil {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	current := at.WithoutThread()
	for i := len(b.list) - 1; i >= 0; i-- { // newest migration first
		if m := b.list[i]; m.To.WithoutThread() == current {
			ids, current = append(ids, m.From.Chat), m.From.WithoutThread()
		}
	}
	return ids
}
