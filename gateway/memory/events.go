package memory

import (
	"context"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/i18n"
	"hermesd/gateway/store"
	"hermesd/internal/shorten"
)

// Limits of events.
const (
	endAfter    = 30 * time.Minute // the last turn
	maxText     = 25000            // characters of a message
	maxParts    = 8                // messages of a text that is longer
	maxUses     = 1 << 20          // bytes of the calls of tools of a turn
	maxFullSize = 64 << 20         // bytes of all events
	maxBatch    = 1 << 20          // bytes of turns that are told as one event
)

// A row is the document of an event in the queue.
type row struct {
	Provider string         `json:"provider"`
	Event    provider.Event `json:"event"`
	// Rest are messages that follow those of Event: together they are too large.
	Rest []provider.Message `json:"rest,omitempty"`
	// Receipt is the answer of a provider that has not processed the event yet, and Asked
	// counts the questions whether it has.
	Receipt *provider.Receipt `json:"receipt,omitempty"`
	Asked   int               `json:"asked,omitempty"`
	Fails   int               `json:"fails,omitempty"`   // without an answer, in succession
	Refused int               `json:"refused,omitempty"` // answers that refuse it
	Unsure  bool              `json:"unsure,omitempty"`  // it may have arrived
	// FactKey is the key of the value with the ID of the fact.
	FactKey string `json:"fact,omitempty"`
}

// uuid returns a UUID of version 5 for an event.
func uuid(kind provider.Kind, key string) string {
	sum := sha1.Sum([]byte("hermesd memory\x00" + string(kind) + "\x00" + key))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

const endKey = "end:"

// queued returns an event for the queue. key is that in the queue.
func (s *Service) queued(key, group string, r row) store.Event {
	r.Provider = s.about().Name
	doc, err := json.Marshal(r)
	if err != nil {
		panic(err) // a row has only strings, numbers and times
	}
	return store.Event{Queue: Queue, Key: key, Group: group, Doc: doc}
}

// TurnEvents returns what the commit of a finished turn adds to the queue: what was said,
// and the end of the conversation, which is due when nobody writes for 30 minutes. key
// identifies the turn. It returns nothing for a turn that the provider must not learn.
func (s *Service) TurnEvents(t Turn, key, question, answer string, at time.Time) []store.Event {
	if !s.learns(t) || !s.settings().Sync || t.Command || question == "" && answer == "" || s.isFull() {
		return nil
	}
	messages := append(s.said("user", question, at), s.said("assistant", answer, at)...)
	e := provider.Event{Key: uuid(provider.Turn, key), Kind: provider.Turn, Scope: s.Scope(t), At: at, Messages: messages}
	if s.SyncsTools() {
		e.Tools = s.used(t.Tools)
	}
	turn := s.queued(e.Key, string(t.Record.ID), row{Event: e})
	if b := s.about().Batch; b.Turns > 0 {
		turn.Reschedules = true
		if (t.Record.Turns+1)%b.Turns != 0 {
			turn.Due = at.Add(b.After)
		}
	}
	return []store.Event{turn, s.end(t, key, at, at.Add(endAfter))}
}

// SyncsTools reports whether the provider is told of calls of tools.
func (s *Service) SyncsTools() bool {
	return !s.off() && s.settings().SyncTools && s.about().ToolUses
}

// used returns calls of tools as they are told, without what was read from the provider:
// that would be stored again.
func (s *Service) used(uses []provider.ToolUse) (list []provider.ToolUse) {
	offered, size := s.Tools(), 0
	for _, u := range uses {
		if slices.ContainsFunc(offered, func(t provider.Tool) bool { return t.Name == u.Name && !t.Writes }) {
			u.Output = ""
		}
		u.Input, u.Output = shorten.To(s.parts.Mask(u.Input), maxText-1), shorten.To(s.parts.Mask(u.Output), maxText-1)
		if size += len(u.Input) + len(u.Output); size > maxUses {
			break
		}
		list = append(list, u)
	}
	return list
}

// said returns a text as messages.
func (s *Service) said(role, text string, at time.Time) []provider.Message {
	var list []provider.Message
	rest := []rune(s.parts.Mask(text))
	for len(rest) > 0 && len(list) < maxParts {
		n := min(len(rest), maxText)
		list = append(list, provider.Message{Role: role, Text: string(rest[:n]), At: at})
		rest = rest[n:]
	}
	return list
}

// end returns the end of a conversation whose last turn is key.
func (s *Service) end(t Turn, key string, at, due time.Time) store.Event {
	e := s.queued(endKey+string(t.Record.ID), string(t.Record.ID), row{Event: provider.Event{
		Key: uuid(provider.End, key), Kind: provider.End, Scope: s.Scope(t), At: at,
	}})
	e.Due = due
	return e
}

// CheckpointEvents returns what the commit of a compaction adds to the queue: messages
// that leave the context. key identifies the compaction.
func (s *Service) CheckpointEvents(t Turn, key string, messages []provider.Message) []store.Event {
	if !s.learns(t) || !s.settings().Sync || !s.about().Checkpoints || len(messages) == 0 || s.isFull() {
		return nil
	}
	now := time.Now()
	e := provider.Event{Key: uuid(provider.Checkpoint, key), Kind: provider.Checkpoint, Scope: s.Scope(t), At: now}
	for _, m := range messages {
		if m.Role != "user" && m.Role != "assistant" {
			continue
		}
		if m.At.IsZero() {
			m.At = now
		}
		e.Messages = append(e.Messages, s.said(m.Role, m.Text, m.At)...)
	}
	// The end must stay the last event of the session.
	return []store.Event{s.queued(e.Key, string(t.Record.ID), row{Event: e}), s.end(t, key, now, now.Add(endAfter))}
}

// EndEvents returns what the commit that ends a conversation adds to the queue.
func (s *Service) EndEvents(t Turn) []store.Event {
	if !s.learns(t) || !s.settings().Sync || t.Record.Turns == 0 {
		return nil
	}
	e := s.end(t, fmt.Sprint(t.Record.ID, " ", t.Record.Turns), time.Now(), time.Time{})
	e.Reschedules = true // turns that wait for more
	return []store.Event{e}
}

// ForgetEvents returns what the deletion of conversations, or of all of a person, adds to
// the queue. About.Cannot says what stays.
func (s *Service) ForgetEvents(scopes ...provider.Scope) []store.Event {
	if s.off() {
		return nil
	}
	var list []store.Event
	for _, scope := range scopes {
		group := scope.Session
		if group == "" {
			group = "person:" + s.who(scope)
		}
		now := time.Now()
		e := provider.Event{Key: uuid(provider.Forget, group+now.String()), Kind: provider.Forget, Scope: scope, At: now}
		list = append(list, s.queued("forget:"+group, group, row{Event: e}))
		s.forget(scope)
	}
	return list
}

// ErrWhichOwner means that each ID of an owner is a person for the provider.
var ErrWhichOwner = errors.New("for this provider each id of an owner is a person of its own: name the id")

// ForgetPerson drops the waiting events of the person of a scope and queues that the
// provider forgets them. About.Cannot says what stays.
func (s *Service) ForgetPerson(ctx context.Context, scope provider.Scope) error {
	switch {
	case s.off():
		return nil
	case scope.Person == "" && scope.UserID == "" && s.about().PerID:
		return ErrWhichOwner
	}
	queued, err := s.parts.Store.QueuedEvents(ctx, Queue)
	if err != nil {
		return err
	}
	var ids []uint64
	for _, q := range queued {
		var r row
		if json.Unmarshal(q.Doc, &r) == nil && r.Provider == s.about().Name && s.who(r.Event.Scope) == s.who(scope) {
			ids = append(ids, q.ID)
		}
	}
	if len(ids) > 0 { // without IDs it is the whole queue
		if _, err := s.parts.Store.DropEvents(ctx, Queue, ids...); err != nil {
			return err
		}
	}
	err = s.parts.Store.EnqueueEvents(ctx, s.ForgetEvents(provider.Scope{Person: scope.Person, UserID: scope.UserID}), s.identityKey(scope.Person), nil)
	s.Wake()
	return err
}

// forget drops what is known here of a session, and of the person that spoke in it.
func (s *Service) forget(scope provider.Scope) {
	s.mu.Lock()
	delete(s.talks, scope.Session)
	if scope.Session == "" {
		clear(s.talks) // those of the person are not known
	}
	s.mu.Unlock()
	if err := s.parts.Store.SetValue(s.ctx, s.standingKey(scope), nil); err != nil {
		s.parts.Log.Error("cannot delete the standing text of the memory provider", zap.Error(err))
	}
}

// isFull reports whether the queue takes no more events, and says so once.
func (s *Service) isFull() bool {
	c := s.parts.Store.EventCounts(Queue)
	full := c.Waiting+c.Aside >= s.settings().QueueMax || c.Bytes >= maxFullSize
	s.mu.Lock()
	first := full && !s.full
	s.full = full || s.full && c.Waiting+c.Aside > s.settings().QueueMax/2 // nearly full is not told again
	s.mu.Unlock()
	if full {
		s.parts.Log.Error("the queue of the memory provider is full: a turn is not kept for it", zap.String("provider", s.about().Name), zap.Int("events", c.Waiting+c.Aside))
		s.parts.Observe(Call{Kind: LeftOut, Result: "queue_full"})
	}
	if first {
		s.parts.Notify(s.ctx, i18n.Errorf("Long-term memory (%s) has not taken what you said for so long that no more is kept for it. `hermesd memory status` says why.", s.about().Label))
	}
	return full
}
