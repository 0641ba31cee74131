package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"hermesd/gateway/chat"
)

// ErrFull is the error of an Inbox that is set to fail.
var ErrFull = errors.New("adaptertest: disk full")

// An Inbox is a sink that behaves like the real one: it stores a batch
// completely or not at all, and ignores events whose key it already has. Its
// methods are safe for concurrent use.
type Inbox struct {
	t *testing.T

	mu      sync.Mutex // guards the fields below
	failing bool
	refused int
	offered int
	seen    map[string]bool
	events  []chat.Inbound
}

// NewInbox returns an empty inbox. Events that a store could not keep are
// reported to t.
func NewInbox(t *testing.T) *Inbox { return &Inbox{t: t, seen: map[string]bool{}} }

func (b *Inbox) Accept(_ context.Context, batch []chat.Inbound) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing {
		b.refused++
		return ErrFull
	}
	for _, in := range batch {
		b.offered++
		b.check(in)
		key := string(in.Address.Platform) + "/" + in.Address.Account + "/" + in.IdempotencyKey
		if !b.seen[key] {
			b.seen[key] = true
			b.events = append(b.events, in)
		}
	}
	return nil
}

// check reports an event that does not survive encoding or lacks required
// fields.
func (b *Inbox) check(in chat.Inbound) {
	raw, err := json.Marshal(in)
	var again chat.Inbound
	if err == nil {
		err = json.Unmarshal(raw, &again)
	}
	switch {
	case err != nil:
		b.t.Errorf("event %q cannot be stored: %v", in.IdempotencyKey, err)
	case !reflect.DeepEqual(in, again):
		b.t.Errorf("event changes when it is stored:\n%+v\n%+v", in, again)
	case in.IdempotencyKey == "" || in.Address.Chat == "" || in.Address.Platform == "" || in.Address.Kind == "":
		b.t.Errorf("event without key or place: %+v", in)
	case in.IgnoreRule == "" && in.Sender.ID == "":
		b.t.Errorf("event of nobody: %+v", in)
	case in.SentAt.IsZero():
		b.t.Errorf("event without a time: %+v", in)
	}
}

// Fail makes the inbox reject all batches if on is true, and accept them
// otherwise.
func (b *Inbox) Fail(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = on
}

// Refused returns the number of rejected batches.
func (b *Inbox) Refused() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Offered returns the number of events offered while the inbox accepted,
// including repeats.
func (b *Inbox) Offered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.offered
}

// Events returns the accepted events without repeats, in order of arrival.
func (b *Inbox) Events() []chat.Inbound {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

// Texts returns the texts of the accepted messages with the address at.
func (b *Inbox) Texts(at chat.Address) []string {
	var out []string
	for _, in := range b.Events() {
		if in.Kind == chat.Message && in.IgnoreRule == "" && in.Address == at {
			out = append(out, in.Text)
		}
	}
	return out
}
