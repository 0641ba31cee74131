package bolt

import (
	"context"
	"slices"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Claim claims the next entries of lane, in order and at most max of them (0:
// no limit). While a claim of this process is valid in the lane, the result is
// empty.
func (s *Store) Claim(ctx context.Context, lane inbox.Lane, max int) (store.Claim, error) {
	return write(ctx, s, "claim "+string(lane), 1024, func(b *batch) (store.Claim, error) { return b.claim(lane, max) })
}

func (b *batch) claim(l inbox.Lane, max int) (store.Claim, error) {
	for {
		positions, err := b.lanePositions(l)
		if err != nil || len(positions) == 0 {
			return store.Claim{Lane: l}, err
		}
		claimed, err := b.hasClaim(positions)
		if err != nil || claimed {
			return store.Claim{Lane: l, Remaining: countWaiting(positions)}, err
		}
		t, entries, err := b.selectEntries(l, positions, max)
		if err != nil {
			return store.Claim{}, err
		}
		if len(entries) == 0 { // all selected entries are damaged; the lane continues
			continue
		}
		c := store.Claim{Lane: l, Turn: t.ID, Epoch: b.s.epoch}
		if c.Steps, err = b.steps(t.ID); isDamage(err) {
			if err := b.failTurn(t, entries, err); err != nil {
				return store.Claim{}, err
			}
			continue
		} else if err != nil {
			return store.Claim{}, err
		}
		if c.Previews, err = b.previews(t); err != nil && !isDamage(err) {
			return store.Claim{}, err
		}
		if c.Entries, err = b.claimEntries(&t, entries); err != nil {
			return store.Claim{}, err
		}
		if c.Deletions, err = b.deletions(t); err != nil {
			return store.Claim{}, err
		}
		for _, e := range entries {
			c.Deletions = append(c.Deletions, e.Deletions...)
		}
		c.Crashed = slices.ContainsFunc(entries, func(e inbox.Entry) bool { return e.Crashes > 0 })
		positions, err = b.lanePositions(l)
		c.Remaining = countWaiting(positions)
		return c, err
	}
}

func countWaiting(positions []lanePosition) int {
	n := 0
	for _, p := range positions {
		if !p.isClaimed {
			n++
		}
	}
	return n
}

// hasClaim reports whether a valid claim exists in a lane with these positions.
func (b *batch) hasClaim(positions []lanePosition) (bool, error) {
	for _, p := range positions {
		if !p.isClaimed {
			continue
		}
		t, err := b.turnOrNew(p.turn, "")
		if err != nil || t.Lease.After(b.now) {
			return true, err
		}
	}
	return false, nil
}

// selectEntries selects the entries of the next claim of a lane: those of an
// interrupted turn, or else a batch from the front.
func (b *batch) selectEntries(l inbox.Lane, positions []lanePosition, max int) (t turnRecord, entries []inbox.Entry, err error) {
	interrupted := slices.IndexFunc(positions, func(p lanePosition) bool { return p.turn != "" })
	if interrupted < 0 {
		entries, err = b.frontBatch(l, positions, max, false)
		if len(entries) > 0 {
			t = b.newTurn(l)
		}
		return t, entries, err
	}
	if t, err = b.turnOrNew(positions[interrupted].turn, l); err != nil {
		return t, nil, err
	}
	for _, p := range positions {
		if p.turn != t.ID {
			continue
		}
		e, ok, err := b.entryAt(l, p)
		if err != nil {
			return t, nil, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return t, entries, nil
}

// frontBatch returns the entries at the front of the lane that may be merged
// into one input; with join into the input of a turn that has not begun. Those that
// came after an immediate command that is not done are not merged with those before
// it: /stop cancels only what is older.
func (b *batch) frontBatch(l inbox.Lane, positions []lanePosition, max int, join bool) ([]inbox.Entry, error) {
	commands, err := b.lanePositions(inbox.ImmediateLaneOf(session.Key(l)))
	if err != nil {
		return nil, err
	}
	var entries []inbox.Entry
	for _, p := range positions {
		if p.isClaimed || p.turn != "" || max > 0 && len(entries) == max {
			break
		}
		if len(commands) > 0 && p.id > commands[0].id && (join || len(entries) > 0) {
			break
		}
		e, ok, err := b.entryAt(l, p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if n := len(entries); n > 0 && !entries[n-1].CanMergeWith(e) {
			break
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// claimEntries adds entries to t and makes t belong to this process.
func (b *batch) claimEntries(t *turnRecord, entries []inbox.Entry) ([]inbox.Entry, error) {
	t.Epoch, t.Lease = b.s.epoch, b.now.Add(b.s.opts.Lease)
	held := make([]inbox.Entry, 0, len(entries))
	for _, e := range entries {
		from := e.State
		e.State, e.Turn, e.Epoch, e.LeaseUntil = inbox.Claimed, t.ID, t.Epoch, t.Lease
		if err := b.putEntry(e, from); err != nil {
			return nil, err
		}
		if !slices.Contains(t.Entries, e.ID) {
			t.Entries = append(t.Entries, e.ID)
		}
		held = append(held, e)
	}
	return held, b.saveTurn(*t)
}

// failTurn ends a turn whose steps cannot be read: without them it is unknown
// what it has already done.
func (b *batch) failTurn(t turnRecord, entries []inbox.Entry, reason error) error {
	b.damage = append(b.damage, reason)
	for _, e := range entries {
		if err := b.finishEntry(e, inbox.Outcome{Result: inbox.Failed, Reason: "what was done for it is damaged"}); err != nil {
			return err
		}
	}
	if err := b.deleteSteps(&t); err != nil {
		return err
	}
	t.Epoch, t.Ended = 0, b.now
	return b.saveTurn(t)
}

// Join adds the entries that have arrived in the lane of the claim since, as
// far as they can be merged, to the same turn and returns them. With steering
// it takes only entries whose mode is steer.
func (s *Store) Join(ctx context.Context, c store.Claim, steering bool) ([]inbox.Entry, error) {
	return write(ctx, s, "join "+c.Turn, 1024, func(b *batch) ([]inbox.Entry, error) {
		t, err := b.claimedTurn(c)
		if err != nil {
			return nil, err
		}
		positions, err := b.lanePositions(t.Lane)
		if err != nil {
			return nil, err
		}
		positions = slices.DeleteFunc(positions, func(p lanePosition) bool { return p.isClaimed && p.turn == t.ID })
		entries, err := b.frontBatch(t.Lane, positions, 0, !steering)
		if steering {
			if n := slices.IndexFunc(entries, func(e inbox.Entry) bool { return e.Mode != inbox.Steer }); n >= 0 {
				entries = entries[:n]
			}
		}
		if err != nil || len(entries) == 0 || entries[0].Exclusive {
			return nil, err
		}
		last, ok, err := b.entry(t.Entries[len(t.Entries)-1])
		if err != nil || ok && last.Exclusive || !steering && ok && !last.CanMergeWith(entries[0]) {
			return nil, err
		}
		return b.claimEntries(&t, entries)
	})
}

// Release makes the entries of the claim wait again. It does not count as a
// crash. If nothing of the turn is stored (no step, no visible preview) the
// turn is deleted, and newer entries can be claimed together with these.
func (s *Store) Release(ctx context.Context, c store.Claim) error {
	return s.do(ctx, "release "+c.Turn, 1024, func(b *batch) error {
		t, err := b.claimedTurn(c)
		if err != nil {
			return err
		}
		previews, err := b.previews(t)
		if err != nil && !isDamage(err) {
			return err
		}
		keep := t.Steps > 0 || len(previews) > 0
		entries, err := b.unfinishedEntries(t)
		if err != nil {
			return err
		}
		deletions, err := b.deletions(t)
		if err != nil {
			return err
		}
		for i, e := range entries {
			from := e.State
			e.State, e.Epoch, e.LeaseUntil = inbox.Waiting, 0, time.Time{}
			if !keep {
				e.Turn = ""
				if i == 0 { // the claim has those of all entries
					e.Deletions = append(e.Deletions, deletions...)
				}
			}
			if err := b.putEntry(e, from); err != nil {
				return err
			}
		}
		t.Epoch, t.Lease = 0, time.Time{}
		if !keep && len(t.Rows) == 0 {
			return b.delete(bTurns, []byte(t.ID))
		}
		if !keep {
			t.Ended = b.now
		}
		return b.saveTurn(t)
	})
}

// unfinishedEntries returns the entries of t that are not done.
func (b *batch) unfinishedEntries(t turnRecord) ([]inbox.Entry, error) {
	var entries []inbox.Entry
	for _, id := range t.Entries {
		e, ok, err := b.entry(id)
		if isDamage(err) {
			e, ok, err = b.entryAt(t.Lane, lanePosition{id: id, isClaimed: true, turn: t.ID})
		}
		if err != nil {
			return nil, err
		}
		if ok && e.State != inbox.Done && e.Turn == t.ID {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// RecordStep stores step for the turn of the claim and renews the lease of the
// claim.
func (s *Store) RecordStep(ctx context.Context, c store.Claim, step store.Step) error {
	return s.do(ctx, "record a step of "+c.Turn, 1024+len(step.Doc), func(b *batch) error {
		t, err := b.claimedTurn(c)
		if err != nil {
			return err
		}
		if step.Create != nil {
			if err := b.createSession(*step.Create, false); err != nil {
				return err
			}
		}
		if err := b.put(bSteps, stepKey(t.ID, t.Steps), step.Doc); err != nil {
			return err
		}
		t.Steps++
		t.Lease = b.now.Add(b.s.opts.Lease)
		return b.saveTurn(t)
	})
}
