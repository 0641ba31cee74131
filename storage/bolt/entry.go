package bolt

import (
	"errors"
	"fmt"

	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
)

// A lanePosition is the record of an entry in the index of lanes.
type lanePosition struct {
	id        inbox.ID
	isClaimed bool
	turn      string
}

var errLanePosition = errors.New("record is empty")

func parseLanePosition(k, v []byte) (lanePosition, error) {
	content, err := checkChecksum(bLanes, k, v)
	if err != nil {
		return lanePosition{}, err
	}
	if len(content) == 0 {
		return lanePosition{}, errLanePosition
	}
	return lanePosition{id: inbox.ID(keyID(k)), isClaimed: content[0] == 'c', turn: string(content[1:])}, nil
}

func (p lanePosition) content() []byte {
	state := byte('w')
	if p.isClaimed {
		state = 'c'
	}
	return append([]byte{state}, p.turn...)
}

// lanePositions returns the positions of a lane in order. A damaged one counts
// as waiting: its entry has the state.
func (r reader) lanePositions(l inbox.Lane) ([]lanePosition, error) {
	var positions []lanePosition
	for k, v := range r.scan(bLanes, lanePrefix(l)) {
		p, err := parseLanePosition(k, v)
		if err != nil {
			if _, _, err := parseLaneKey(k); err != nil {
				return nil, err
			}
			p = lanePosition{id: inbox.ID(keyID(k))}
		}
		positions = append(positions, p)
	}
	return positions, nil
}

func (r reader) entry(id inbox.ID) (e inbox.Entry, ok bool, err error) {
	ok, err = r.load(bEntries, idKey(uint64(id)), &e)
	return e, ok, err
}

// countState updates the counts of the mirror for an entry whose state changes;
// "" is an entry that does not exist.
func (b *batch) countState(l inbox.Lane, from, to inbox.State) {
	if from == inbox.Waiting {
		b.waiting[l]--
	}
	if to == inbox.Waiting {
		b.waiting[l]++
	}
	if from == inbox.Claimed {
		b.claimed--
	}
	if to == inbox.Claimed {
		b.claimed++
	}
}

// putEntry stores e, whose state was from, and its position in the lane.
func (b *batch) putEntry(e inbox.Entry, from inbox.State) error {
	if err := b.save(bEntries, idKey(uint64(e.ID)), e); err != nil {
		return err
	}
	key := laneKey(e.Lane, e.ID)
	switch {
	case e.State != inbox.Done:
		p := lanePosition{isClaimed: e.State == inbox.Claimed, turn: e.Turn}
		if err := b.put(bLanes, key, p.content()); err != nil {
			return err
		}
	case from == inbox.Waiting || from == inbox.Claimed:
		if err := b.delete(bLanes, key); err != nil {
			return err
		}
	}
	b.countState(e.Lane, from, e.State)
	return nil
}

// finishEntry ends e, and the run of the occurrence if e is one.
func (b *batch) finishEntry(e inbox.Entry, o inbox.Outcome) error {
	return b.finishRun(e, o, o.RunOutcome())
}

// finishRun is finishEntry with a run outcome that does not follow from o.
func (b *batch) finishRun(e inbox.Entry, o inbox.Outcome, end schedule.RunOutcome) error {
	from := e.State
	e.State, e.Outcome, e.Ended = inbox.Done, &o, b.now
	if e.Occurrence != nil {
		if err := b.endRun(*e.Occurrence, e.Turn, end); err != nil {
			return err
		}
	}
	return b.putEntry(e, from)
}

// entryAt returns the entry at a position of lane l. If it cannot be read, its
// bytes are moved to bucket damaged, the entry ends as failed, and ok is false.
func (b *batch) entryAt(l inbox.Lane, p lanePosition) (e inbox.Entry, ok bool, err error) {
	e, ok, err = b.entry(p.id)
	if err == nil && ok {
		return e, true, nil
	}
	if err != nil && !isDamage(err) {
		return e, false, err
	}
	if err == nil {
		err = fmt.Errorf("entry %s is missing", p.id)
	}
	if err := b.saveDamaged(bEntries, idKey(uint64(p.id)), err); err != nil {
		return e, false, err
	}
	from := inbox.Waiting
	if p.isClaimed {
		from = inbox.Claimed
	}
	stub := inbox.Entry{ID: p.id, Lane: l, Turn: p.turn, State: from, Accepted: b.now}
	o := inbox.Outcome{Result: inbox.Failed, Reason: "the stored record is damaged"}
	if err := b.endDamagedRun(p.id, o.RunOutcome()); err != nil {
		return inbox.Entry{}, false, err
	}
	return inbox.Entry{}, false, b.finishEntry(stub, o)
}
