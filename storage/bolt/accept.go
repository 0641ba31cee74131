package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

var errNoKey = errors.New("the event has no idempotency key")

// Accept adds entries, in order and all at once.
func (s *Store) Accept(ctx context.Context, entries []inbox.Entry) ([]inbox.Acceptance, error) {
	size := 0
	for _, e := range entries {
		if e.Inbound.IdempotencyKey == "" {
			return nil, fmt.Errorf("accept message %q of %s: %w", e.Inbound.ID, e.Inbound.Address, errNoKey)
		}
		size += 1024 + len(e.Inbound.Text) + 2048*len(e.Notices)
	}
	var taken []inbox.Acceptance
	err := s.do(ctx, "accept", size, func(b *batch) error {
		taken = make([]inbox.Acceptance, 0, len(entries))
		for _, e := range entries {
			a, err := b.accept(e)
			if err != nil {
				return err
			}
			taken = append(taken, a)
		}
		return b.claimAccepted(entries, taken)
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// claimAccepted claims the entries for which that was asked and that are alone
// in their lanes.
func (b *batch) claimAccepted(entries []inbox.Entry, taken []inbox.Acceptance) error {
	for i, e := range entries {
		if !e.ClaimOnAccept || !taken[i].IsNew {
			continue
		}
		places, err := b.lane(e.Lane)
		if err != nil {
			return err
		}
		if len(places) != 1 || places[0].claimed || places[0].turn != "" {
			continue
		}
		c, err := b.claim(e.Lane, 1)
		if err != nil {
			return err
		}
		if c.Turn != "" {
			taken[i].Claim = &c
		}
	}
	return nil
}

// A keyRecord is the record of an idempotency key.
type keyRecord struct {
	ID inbox.ID  `json:"id"`
	At time.Time `json:"at"`
}

func (b *batch) accept(e inbox.Entry) (inbox.Acceptance, error) {
	key := seenKey(e.Inbound.Address, e.Inbound.IdempotencyKey)
	var before keyRecord
	switch ok, err := b.load(bKeys, key, &before); {
	case isDamage(err): // that it is there says enough
		b.damage = append(b.damage, err)
		return inbox.Acceptance{}, nil
	case err != nil:
		return inbox.Acceptance{}, err
	case ok:
		return inbox.Acceptance{ID: before.ID}, nil
	}
	id, err := b.next(bEntries)
	if err != nil {
		return inbox.Acceptance{}, err
	}
	e.ID = inbox.ID(id)
	if e.Accepted.IsZero() {
		e.Accepted = b.now
	}
	e.Turn, e.Epoch, e.LeaseUntil, e.Crashes = "", 0, time.Time{}, 0
	if err := b.enter(&e); err != nil {
		return inbox.Acceptance{}, err
	}
	if err := b.save(bKeys, key, keyRecord{e.ID, b.now}); err != nil {
		return inbox.Acceptance{}, err
	}
	age := binary.BigEndian.AppendUint64(nil, uint64(b.now.UnixNano()))
	if err := b.put(bAges, idKey(id), append(age, key...)); err != nil {
		return inbox.Acceptance{}, err
	}
	if _, err := b.enqueue(e.Notices, ""); err != nil {
		return inbox.Acceptance{}, err
	}
	b.fresh++
	return inbox.Acceptance{ID: e.ID, IsNew: true}, b.putEntry(e, "")
}

// enter sets the state in which e begins, and carries out an edit.
func (b *batch) enter(e *inbox.Entry) error {
	switch {
	case e.State == inbox.Done:
		if e.Outcome == nil {
			e.Outcome = &inbox.Outcome{Result: inbox.Silent, Reason: e.Inbound.IgnoreRule}
		}
	case e.Inbound.Kind == chat.Edit:
		applied, err := b.amend(e.Inbound)
		if err != nil {
			return err
		}
		e.State, e.Outcome = inbox.Done, &inbox.Outcome{Result: inbox.Silent, Reason: "edit_too_late"}
		if applied {
			e.Outcome.Reason = "edit_applied"
		}
	default:
		e.State, e.Outcome, e.Ended = inbox.Waiting, nil, time.Time{}
		return nil
	}
	if e.Ended.IsZero() {
		e.Ended = b.now
	}
	return nil
}

// amend replaces text and files of the entry that edit amends, if nothing has
// been done with it yet.
func (b *batch) amend(edit chat.Inbound) (applied bool, err error) {
	if edit.EditedKey == "" {
		return false, nil
	}
	var first keyRecord
	ok, err := b.load(bKeys, seenKey(edit.Address, edit.EditedKey), &first)
	if !ok || isDamage(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, ok, err := b.entry(first.ID)
	if !ok || isDamage(err) {
		return false, nil
	}
	if err != nil || e.State != inbox.Waiting || e.Inbound.Sender.ID != edit.Sender.ID { // nobody changes the words of others
		return false, err
	}
	if e.Turn != "" {
		t, ok, err := b.turn(e.Turn)
		if err != nil || ok && t.Steps > 0 {
			return false, err
		}
	}
	e.Inbound.Text, e.Inbound.Files = edit.Text, edit.Files
	return true, b.putEntry(e, inbox.Waiting)
}

// Lanes returns the lanes that have entries which are not done, in the order of
// their oldest entry.
func (s *Store) Lanes(ctx context.Context) ([]inbox.Lane, error) {
	var lanes []inbox.Lane
	err := s.view(ctx, "lanes", func(r reader) error {
		var err error
		lanes, err = r.lanes()
		return err
	})
	return lanes, err
}

// Waiting returns how many entries of lane wait unclaimed.
func (s *Store) Waiting(lane inbox.Lane) int {
	s.mirror.mu.RLock()
	defer s.mirror.mu.RUnlock()
	return s.mirror.waiting[lane]
}
