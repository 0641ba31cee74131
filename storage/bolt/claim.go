package bolt

import (
	"context"
	"slices"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// Claim takes entries that wait in lane, in order and at most max (0: all).
// While a claim of this process holds in the lane nothing waits there.
func (s *Store) Claim(ctx context.Context, lane inbox.Lane, max int) (inbox.Claim, error) {
	var c inbox.Claim
	err := s.do(ctx, "claim "+string(lane), 1024, func(b *batch) error {
		var err error
		c, err = b.claim(lane, max)
		return err
	})
	if err != nil {
		return inbox.Claim{}, err
	}
	return c, nil
}

func (b *batch) claim(l inbox.Lane, max int) (inbox.Claim, error) {
	for {
		places, err := b.lane(l)
		if err != nil || len(places) == 0 {
			return inbox.Claim{Lane: l}, err
		}
		taken, err := b.taken(places)
		if err != nil || taken {
			return inbox.Claim{Lane: l, Remaining: waiting(places)}, err
		}
		t, entries, err := b.choose(l, places, max)
		if err != nil {
			return inbox.Claim{}, err
		}
		if len(entries) == 0 { // all that was chosen is damaged; the lane goes on
			continue
		}
		c := inbox.Claim{Lane: l, Turn: t.ID, Epoch: b.s.epoch}
		if c.Steps, err = b.steps(t.ID); isDamage(err) {
			if err := b.abandon(t, entries, err); err != nil {
				return inbox.Claim{}, err
			}
			continue
		} else if err != nil {
			return inbox.Claim{}, err
		}
		if c.Previews, err = b.previews(t); err != nil && !isDamage(err) {
			return inbox.Claim{}, err
		}
		if c.Entries, err = b.hold(&t, entries); err != nil {
			return inbox.Claim{}, err
		}
		c.Crashed = slices.ContainsFunc(entries, func(e inbox.Entry) bool { return e.Crashes > 0 })
		places, err = b.lane(l)
		c.Remaining = waiting(places)
		return c, err
	}
}

func waiting(places []lanePosition) int {
	n := 0
	for _, p := range places {
		if !p.claimed {
			n++
		}
	}
	return n
}

// taken reports whether a claim holds in a lane with these places.
func (b *batch) taken(places []lanePosition) (bool, error) {
	for _, p := range places {
		if !p.claimed {
			continue
		}
		t, err := b.turnOrNew(p.turn, "")
		if err != nil || t.Lease.After(b.now) {
			return true, err
		}
	}
	return false, nil
}

// choose picks what the next claim of lane takes: the entries of a turn that
// was cut short, or else a batch from the front.
func (b *batch) choose(l inbox.Lane, places []lanePosition, max int) (t turnRecord, entries []inbox.Entry, err error) {
	cut := slices.IndexFunc(places, func(p lanePosition) bool { return p.turn != "" })
	if cut < 0 {
		entries, err = b.front(l, places, max)
		if len(entries) > 0 {
			t = b.newTurn(l)
		}
		return t, entries, err
	}
	if t, err = b.turnOrNew(places[cut].turn, l); err != nil {
		return t, nil, err
	}
	for _, p := range places {
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

// front returns the entries at the front of places that make one batch: those
// that may be one input.
func (b *batch) front(l inbox.Lane, places []lanePosition, max int) ([]inbox.Entry, error) {
	var entries []inbox.Entry
	for _, p := range places {
		if p.claimed || p.turn != "" || max > 0 && len(entries) == max {
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

// hold makes entries part of t, and t this process's.
func (b *batch) hold(t *turnRecord, entries []inbox.Entry) ([]inbox.Entry, error) {
	t.Epoch, t.Lease = b.s.epoch, b.now.Add(b.s.o.Lease)
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

// abandon ends a turn whose steps cannot be read: without them it is not known
// what it has done already.
func (b *batch) abandon(t turnRecord, entries []inbox.Entry, why error) error {
	b.damage = append(b.damage, why)
	for _, e := range entries {
		if err := b.finishEntry(e, inbox.Outcome{Result: inbox.Failed, Reason: "what was done for it is damaged"}); err != nil {
			return err
		}
	}
	if err := b.dropSteps(&t); err != nil {
		return err
	}
	t.Epoch, t.Ended = 0, b.now
	return b.saveTurn(t)
}

// Join takes what has come to wait in the claim's lane meanwhile into the same
// turn, as far as it may be one input with it, and returns it; steering: only
// what is meant to steer.
func (s *Store) Join(ctx context.Context, c inbox.Claim, steering bool) ([]inbox.Entry, error) {
	var joined []inbox.Entry
	err := s.do(ctx, "join "+c.Turn, 1024, func(b *batch) error {
		joined = nil
		t, err := b.claimedTurn(c)
		if err != nil {
			return err
		}
		places, err := b.lane(t.Lane)
		if err != nil {
			return err
		}
		places = slices.DeleteFunc(places, func(p lanePosition) bool { return p.claimed && p.turn == t.ID })
		entries, err := b.front(t.Lane, places, 0)
		if steering {
			if n := slices.IndexFunc(entries, func(e inbox.Entry) bool { return e.Mode != inbox.Steer }); n >= 0 {
				entries = entries[:n]
			}
		}
		if err != nil || len(entries) == 0 || entries[0].Exclusive {
			return err
		}
		last, ok, err := b.entry(t.Entries[len(t.Entries)-1])
		if err != nil || ok && last.Exclusive || !steering && ok && !last.CanMergeWith(entries[0]) {
			return err
		}
		joined, err = b.hold(&t, entries)
		return err
	})
	if err != nil {
		return nil, err
	}
	return joined, nil
}

// Release lets the claim's entries wait again. It is not a crash. If nothing of
// the turn is kept (no step, no preview that can be seen) it is forgotten, and
// newer entries can be claimed together with these.
func (s *Store) Release(ctx context.Context, c inbox.Claim) error {
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
		entries, err := b.unfinished(t)
		if err != nil {
			return err
		}
		for _, e := range entries {
			from := e.State
			e.State, e.Epoch, e.LeaseUntil = inbox.Waiting, 0, time.Time{}
			if !keep {
				e.Turn = ""
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

// unfinished returns the entries of t that are not done.
func (b *batch) unfinished(t turnRecord) ([]inbox.Entry, error) {
	var entries []inbox.Entry
	for _, id := range t.Entries {
		e, ok, err := b.entry(id)
		if isDamage(err) {
			e, ok, err = b.entryAt(t.Lane, lanePosition{id: id, claimed: true, turn: t.ID})
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

// RecordStep keeps s with the claim's turn and renews the claim's lease. It
// opens the session if open is not nil and it is not open yet.
func (s *Store) RecordStep(ctx context.Context, c inbox.Claim, open *session.Creation, step inbox.Step) error {
	return s.do(ctx, "record a step of "+c.Turn, 1024+len(step), func(b *batch) error {
		t, err := b.claimedTurn(c)
		if err != nil {
			return err
		}
		if open != nil {
			if err := b.openSession(*open, false); err != nil {
				return err
			}
		}
		if err := b.put(bSteps, stepKey(t.ID, t.Steps), step); err != nil {
			return err
		}
		t.Steps++
		t.Lease = b.now.Add(b.s.o.Lease)
		return b.saveTurn(t)
	})
}
