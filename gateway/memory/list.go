package memory

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/store"
)

// A QueuedEvent describes an event of the queue, without its text.
type QueuedEvent struct {
	ID       uint64        `json:"id"`
	Provider string        `json:"provider"`
	Kind     provider.Kind `json:"kind"`
	Person   string        `json:"person,omitempty"` // "" is the owner
	Group    string        `json:"group"`
	Added    time.Time     `json:"added"`
	Due      time.Time     `json:"due"`
	Tries    int           `json:"tries"`
	Aside    string        `json:"aside,omitempty"` // why it is not sent until somebody retries it
}

// QueuedEvents describes the events of the queue in the order of their addition.
func QueuedEvents(ctx context.Context, s store.Events) ([]QueuedEvent, error) {
	queued, err := s.QueuedEvents(ctx, Queue)
	list := make([]QueuedEvent, len(queued))
	for i, q := range queued {
		list[i] = describe(q, new(row))
	}
	return list, err
}

// An EventText is a QueuedEvent with what it says.
type EventText struct {
	QueuedEvent

	Messages []provider.Message `json:"messages,omitempty"`
	Fact     provider.Fact      `json:"fact,omitzero"`
}

// FindEvent returns an event of the queue; ok is false if it is not there.
func FindEvent(ctx context.Context, s store.Events, id uint64) (e EventText, ok bool, err error) {
	queued, err := s.QueuedEvents(ctx, Queue)
	i := slices.IndexFunc(queued, func(q store.QueuedEvent) bool { return q.ID == id })
	if err != nil || i < 0 {
		return e, false, err
	}
	var r row
	q := describe(queued[i], &r)
	return EventText{q, slices.Concat(r.Event.Messages, r.Rest), r.Event.Fact}, true, nil
}

// describe decodes an event into r and describes it. One that cannot be read is listed by
// its number.
func describe(q store.QueuedEvent, r *row) QueuedEvent {
	_ = json.Unmarshal(q.Doc, r)
	return QueuedEvent{q.ID, r.Provider, r.Event.Kind, r.Event.Scope.Person, q.Group, q.Added, q.Due, q.Tries, q.Aside}
}

// Cannot says what the provider cannot delete; "" if it deletes everything.
func (s *Service) Cannot() string { return s.about().Cannot }
