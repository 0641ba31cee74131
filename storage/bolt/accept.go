package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
)

var errNoKey = errors.New("event has no idempotency key")

// Accept stores the entries of admissions in order, all or none. An entry without an
// idempotency key is an error; one whose key is already known is not stored again.
func (s *Store) Accept(ctx context.Context, admissions []store.Admission) ([]store.Acceptance, error) {
	size := 0
	for _, a := range admissions {
		in := a.Entry.Inbound
		if in.IdempotencyKey == "" {
			return nil, fmt.Errorf("accept message %q of %s: %w", in.ID, in.Address, errNoKey)
		}
		size += 1024 + len(in.Text) + rowsSize(a.Notices) + editedValueSize*len(a.Edits)
		if a.Limit != nil {
			size += rowsSize(a.Limit.Notices)
		}
	}
	return write(ctx, s, "accept", size, func(b *batch) ([]store.Acceptance, error) {
		accepted := make([]store.Acceptance, len(admissions))
		for i, a := range admissions {
			a.Claim = a.Claim && isAlone(i, admissions)
			var err error
			if accepted[i], err = b.accept(a); err != nil {
				return nil, err
			}
		}
		return accepted, nil
	})
}

// isAlone reports whether the i-th entry can be claimed while the others are accepted: none
// of them is for its lane, or changes what waits.
func isAlone(i int, admissions []store.Admission) bool {
	for j, a := range admissions {
		if j != i && (a.Entry.Lane == admissions[i].Entry.Lane || a.Entry.Inbound.Kind == chat.Edit) {
			return false
		}
	}
	return true
}

// A keyRecord is the stored record of an idempotency key.
type keyRecord struct {
	ID inbox.ID  `json:"id"`
	At time.Time `json:"at"`
}

func (b *batch) accept(a store.Admission) (store.Acceptance, error) {
	e, notices, edits := a.Entry, a.Notices, a.Edits
	key := idempotencyKey(e.Inbound.Address, e.Inbound.IdempotencyKey)
	var before keyRecord
	switch ok, err := b.load(bKeys, key, &before); {
	case isDamage(err): // that the record exists is enough
		b.damage = append(b.damage, err)
		return store.Acceptance{}, nil
	case err != nil:
		return store.Acceptance{}, err
	case ok:
		return store.Acceptance{ID: before.ID}, nil
	}
	id, err := b.nextID(bEntries)
	if err != nil {
		return store.Acceptance{}, err
	}
	e.ID = inbox.ID(id)
	if e.Accepted.IsZero() {
		e.Accepted = b.now
	}
	refused := a.Limit != nil && b.countWaiting(e.Lane) >= a.Limit.MaxWaiting
	if refused {
		e.State, e.Ended, e.Outcome = inbox.Done, b.now, &a.Limit.Outcome
		notices, edits = a.Limit.Notices, nil
	}
	e.Turn, e.Epoch, e.LeaseUntil, e.Crashes, e.CrashesAlone = "", 0, time.Time{}, 0, 0
	if err := b.setInitialState(&e); err != nil {
		return store.Acceptance{}, err
	}
	if err := b.save(bKeys, key, keyRecord{e.ID, b.now}); err != nil {
		return store.Acceptance{}, err
	}
	age := binary.BigEndian.AppendUint64(nil, uint64(b.now.UnixNano()))
	if err := b.put(bAges, idKey(id), append(age, key...)); err != nil {
		return store.Acceptance{}, err
	}
	if _, err := b.enqueue(notices, nil); err != nil {
		return store.Acceptance{}, err
	}
	for _, edit := range edits {
		err := b.editValue(edit.Key, edit.Change)
		if isDamage(err) {
			if err = b.saveDamaged(bValues, []byte(edit.Key), err); err == nil {
				err = b.changeValue(edit.Key, nil, edit.Change)
			}
		}
		if err != nil {
			return store.Acceptance{}, fmt.Errorf("edit value %s: %w", edit.Key, err)
		}
	}
	b.accepted++
	claim, err := b.putNew(e, a.Claim)
	return store.Acceptance{ID: e.ID, IsNew: true, Refused: refused, Claim: claim}, err
}

// putNew stores the new entry e. With claim it claims e if its lane is empty.
func (b *batch) putNew(e inbox.Entry, claim bool) (*store.Claim, error) {
	if !claim || e.State != inbox.Waiting {
		return nil, b.putEntry(e, "")
	}
	if positions, err := b.lanePositions(e.Lane); err != nil {
		return nil, err
	} else if len(positions) > 0 {
		return nil, b.putEntry(e, "")
	}
	t := b.newTurn(e.Lane)
	e.State = "" // it is not counted yet
	entries, err := b.claimEntries(&t, []inbox.Entry{e})
	return &store.Claim{Lane: e.Lane, Turn: t.ID, Epoch: b.s.epoch, Entries: entries}, err
}

// countWaiting returns the number of unclaimed entries of a lane.
func (b *batch) countWaiting(l inbox.Lane) int {
	b.s.mirror.mu.RLock()
	defer b.s.mirror.mu.RUnlock()
	return b.s.mirror.waiting[l] + b.waiting[l]
}

// setInitialState sets the state in which e starts, and applies an edit.
func (b *batch) setInitialState(e *inbox.Entry) error {
	switch {
	case e.State == inbox.Done:
		if e.Outcome == nil {
			e.Outcome = &inbox.Outcome{Result: inbox.Silent, Reason: e.Inbound.IgnoreRule}
		}
	case e.Inbound.Kind == chat.Edit:
		applied, err := b.applyEdit(e.Inbound)
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

// applyEdit replaces the text and the files of the entry that edit refers to,
// if no work has been done for it yet.
func (b *batch) applyEdit(edit chat.Inbound) (applied bool, err error) {
	if edit.EditedKey == "" {
		return false, nil
	}
	var first keyRecord
	ok, err := b.load(bKeys, idempotencyKey(edit.Address, edit.EditedKey), &first)
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
	if err != nil || e.State != inbox.Waiting || e.Inbound.Sender.ID != edit.Sender.ID { // only the sender may edit a message
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

// Lanes returns the lanes that have unfinished entries, ordered by their oldest
// entry.
func (s *Store) Lanes(ctx context.Context) ([]inbox.Lane, error) {
	return read(ctx, s, "list lanes", reader.lanes)
}

// Interrupted returns, for each lane whose next turn was running when a process
// died, the first entry of that turn, ordered by ID.
func (s *Store) Interrupted(ctx context.Context) ([]inbox.Entry, error) {
	return read(ctx, s, "list interrupted turns", reader.interrupted)
}

func (r reader) interrupted() ([]inbox.Entry, error) {
	var entries []inbox.Entry
	seen := make(map[inbox.Lane]bool)
	for k, v := range r.scan(bLanes, nil) {
		l, id, err := parseLaneKey(k)
		if err != nil {
			continue // Verify reports it
		}
		p, err := parseLanePosition(k, v)
		if err != nil || p.isClaimed || p.turn == "" || seen[l] {
			continue
		}
		seen[l] = true
		e, ok, err := r.entry(id)
		if err != nil && !isDamage(err) {
			return nil, err
		}
		if ok && err == nil && e.Crashes > 0 {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b inbox.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries, nil
}

// Waiting returns the number of unclaimed entries in lane.
func (s *Store) Waiting(lane inbox.Lane) int {
	s.mirror.mu.RLock()
	defer s.mirror.mu.RUnlock()
	return s.mirror.waiting[lane]
}
