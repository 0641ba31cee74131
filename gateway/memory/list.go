package memory

import (
	"context"
	"encoding/json"
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
		var r row
		_ = json.Unmarshal(q.Doc, &r) // one that cannot be read is listed by its number
		list[i] = QueuedEvent{q.ID, r.Provider, r.Event.Kind, r.Event.Scope.Person, q.Group, q.Added, q.Due, q.Tries, q.Aside}
	}
	return list, err
}

// Cannot says what the provider cannot delete; "" if it deletes everything.
func (s *Service) Cannot() string { return s.about.Cannot }
