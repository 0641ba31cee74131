package bolt

import (
	"bytes"
	"errors"
	"fmt"

	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
)

// A lanePosition is what the index of lanes says of an entry.
type lanePosition struct {
	id      inbox.ID
	claimed bool
	turn    string
}

var errLanePosition = errors.New("it is empty")

func placeOf(k, v []byte) (lanePosition, error) {
	content, err := checkChecksum(bLanes, k, v)
	if err != nil {
		return lanePosition{}, err
	}
	if len(content) == 0 {
		return lanePosition{}, errLanePosition
	}
	return lanePosition{id: inbox.ID(keyID(k)), claimed: content[0] == 'c', turn: string(content[1:])}, nil
}

func (p lanePosition) content() []byte {
	state := byte('w')
	if p.claimed {
		state = 'c'
	}
	return append([]byte{state}, p.turn...)
}

// lane returns the places in a lane, in order. A damaged one counts as waiting:
// its entry says the rest.
func (r reader) lane(l inbox.Lane) ([]lanePosition, error) {
	var places []lanePosition
	prefix := lanePrefix(l)
	c := r.bucket(bLanes).Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		p, err := placeOf(k, v)
		if err != nil {
			if _, _, err := laneOf(k); err != nil {
				return nil, err
			}
			p = lanePosition{id: inbox.ID(keyID(k))}
		}
		places = append(places, p)
	}
	return places, nil
}

func (r reader) entry(id inbox.ID) (e inbox.Entry, ok bool, err error) {
	ok, err = r.load(bEntries, idKey(uint64(id)), &e)
	return e, ok, err
}

// state is what the mirror counts an entry as; "" is one that is not there.
func (b *batch) count(l inbox.Lane, from, to inbox.State) {
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

// putEntry stores e, which was in state from, and its place in its lane.
func (b *batch) putEntry(e inbox.Entry, from inbox.State) error {
	if err := b.save(bEntries, idKey(uint64(e.ID)), e); err != nil {
		return err
	}
	key := laneKey(e.Lane, e.ID)
	switch {
	case e.State != inbox.Done:
		p := lanePosition{claimed: e.State == inbox.Claimed, turn: e.Turn}
		if err := b.put(bLanes, key, p.content()); err != nil {
			return err
		}
	case from == inbox.Waiting || from == inbox.Claimed:
		if err := b.delete(bLanes, key); err != nil {
			return err
		}
	}
	b.count(e.Lane, from, e.State)
	return nil
}

// finishEntry ends e, and the slot of which it is the run.
func (b *batch) finishEntry(e inbox.Entry, o inbox.Outcome) error {
	return b.finishRun(e, o, o.RunOutcome())
}

// finishRun is finishEntry with an end of the slot that o does not say.
func (b *batch) finishRun(e inbox.Entry, o inbox.Outcome, end schedule.RunOutcome) error {
	from := e.State
	e.State, e.Outcome, e.Ended = inbox.Done, &o, b.now
	if e.Occurrence != nil {
		if err := b.endSlot(*e.Occurrence, e.Turn, end); err != nil {
			return err
		}
	}
	return b.putEntry(e, from)
}

// entryAt returns the entry at a place of lane l. One that cannot be read is set
// aside and ended, and ok is false.
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
	if err := b.setAside(bEntries, idKey(uint64(p.id)), err); err != nil {
		return e, false, err
	}
	from := inbox.Waiting
	if p.claimed {
		from = inbox.Claimed
	}
	stub := inbox.Entry{ID: p.id, Lane: l, Turn: p.turn, State: from, Accepted: b.now}
	o := inbox.Outcome{Result: inbox.Failed, Reason: "the stored record is damaged"}
	if err := b.endLost(p.id, o.RunOutcome()); err != nil {
		return inbox.Entry{}, false, err
	}
	return inbox.Entry{}, false, b.finishEntry(stub, o)
}
