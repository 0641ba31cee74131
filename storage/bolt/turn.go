package bolt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage"
)

// A turnRecord is the stored record of a turn. It exists from the first claim
// until the retention time after the end.
type turnRecord struct {
	ID    string     `json:"id"`
	Lane  inbox.Lane `json:"lane"`
	Epoch uint64     `json:"epoch,omitempty"` // epoch of the claim; 0: not claimed
	Lease time.Time  `json:"lease,omitzero"`
	// Steps is the number of stored steps, StepsAtCrash their number at the
	// last crash.
	Steps        int             `json:"steps,omitempty"`
	StepsAtCrash int             `json:"crashed,omitempty"`
	Entries      []inbox.ID      `json:"entries"`
	Rows         []outbox.ID     `json:"rows,omitempty"`
	Previews     []outbox.ID     `json:"previews,omitempty"` // previews that were not deleted
	Began        time.Time       `json:"began"`
	Ended        time.Time       `json:"ended,omitzero"`
	Trace        json.RawMessage `json:"trace,omitempty"`
	Session      session.ID      `json:"session,omitempty"` // session of its commit
}

func (r reader) turn(id string) (t turnRecord, ok bool, err error) {
	ok, err = r.load(bTurns, []byte(id), &t)
	return t, ok, err
}

func (b *batch) saveTurn(t turnRecord) error { return b.save(bTurns, []byte(t.ID), t) }

// newTurn returns a turn of lane l with a unique ID that sorts by time.
func (b *batch) newTurn(l inbox.Lane) turnRecord {
	b.s.turnCount++
	id := fmt.Sprintf("t%011x-%x-%x", b.now.UnixMilli(), b.s.epoch, b.s.turnCount)
	return turnRecord{ID: id, Lane: l, Began: b.now}
}

// claimedTurn returns the turn of claim c, or store.ErrStale if c no longer
// owns it.
func (b *batch) claimedTurn(c store.Claim) (turnRecord, error) {
	if c.Turn == "" || c.Epoch != b.s.epoch {
		return turnRecord{}, store.ErrStale
	}
	t, ok, err := b.turn(c.Turn)
	if err != nil {
		return t, err
	}
	if !ok || t.Epoch != c.Epoch || t.Lane != c.Lane || !t.Ended.IsZero() {
		return t, store.ErrStale
	}
	return t, nil
}

// steps returns the steps of a turn, in order.
func (r reader) steps(turn string) ([]json.RawMessage, error) {
	var steps []json.RawMessage
	for k, v := range r.scan(bSteps, stepPrefix(turn)) {
		content, err := checkChecksum(bSteps, k, v)
		if err != nil {
			return nil, err
		}
		steps = append(steps, bytes.Clone(content))
	}
	return steps, nil
}

// deleteSteps deletes the steps of a turn.
func (b *batch) deleteSteps(t *turnRecord) error {
	t.Steps = 0
	return b.deleteAll(bSteps, b.keys(bSteps, stepPrefix(t.ID)))
}

// previews returns the preview rows of t that may be or become visible on the
// platform.
func (r reader) previews(t turnRecord) ([]outbox.Row, error) {
	var rows []outbox.Row
	for _, id := range t.Previews {
		row, ok, err := r.row(id)
		if err != nil {
			return nil, err
		}
		if !ok || row.State == outbox.Dead && row.Receipt == nil && !row.MayStayVisible() {
			continue
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// deletions returns the rows of t that delete previews.
func (r reader) deletions(t turnRecord) ([]outbox.ID, error) {
	var ids []outbox.ID
	for _, id := range t.Rows {
		row, ok, err := r.row(id)
		if err != nil && !isDamage(err) {
			return nil, err
		}
		if ok && err == nil && row.Delete != 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// lanes returns the lanes that are not empty, ordered by their oldest entry.
func (r reader) lanes() ([]inbox.Lane, error) {
	var lanes []inbox.Lane
	oldest := make(map[inbox.Lane]inbox.ID)
	for k := range r.scan(bLanes, nil) {
		l, id, err := parseLaneKey(k)
		if err != nil {
			return nil, &storage.DamageError{Record: recordName(bLanes, k), Err: err}
		}
		if _, ok := oldest[l]; !ok {
			oldest[l], lanes = id, append(lanes, l)
		}
	}
	slices.SortFunc(lanes, func(a, b inbox.Lane) int { return cmp.Compare(oldest[a], oldest[b]) })
	return lanes, nil
}

// startEpoch starts a new epoch: claims of earlier processes expire, and the
// rows that they were sending become uncertain.
func (s *Store) startEpoch() error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	b := s.newBatch(tx)
	err = recoverPanics(b.beginEpoch)
	if err == nil {
		err = recoverPanics(tx.Commit)
	}
	if err != nil {
		return errors.Join(err, s.rollback(b))
	}
	s.commits.Add(1)
	s.reportDamage(b.damage)
	return nil
}

func (b *batch) beginEpoch() error {
	var id identity
	if ok, err := b.load(bMeta, []byte(keyStore), &id); err != nil {
		return err
	} else if !ok {
		return &storage.DamageError{Record: "the file", Err: errMalformedKey}
	}
	id.Epoch++
	b.s.epoch = id.Epoch
	if err := b.save(bMeta, []byte(keyStore), id); err != nil {
		return err
	}
	if err := b.expireClaims(); err != nil {
		return err
	}
	return b.expireAttempts()
}

// expireClaims makes the claimed entries wait again.
func (b *batch) expireClaims() error {
	type claimed struct {
		lane inbox.Lane
		lanePosition
	}
	var found []claimed
	for k, v := range b.scan(bLanes, nil) {
		l, _, err := parseLaneKey(k)
		if err != nil {
			continue // Verify reports it
		}
		if p, err := parseLanePosition(k, v); err == nil && p.isClaimed {
			found = append(found, claimed{l, p})
		}
	}
	running := make(map[string]int) // earlier crashes of the turns that were running
	for _, f := range found {
		e, _, err := b.entry(f.id)
		if err != nil && !isDamage(err) {
			return err
		}
		running[f.turn] = max(running[f.turn], e.Crashes)
	}
	likely := likelyCause(running)
	turns := make(map[string]turnRecord)
	crashed := make(map[session.Key]bool)
	for _, f := range found {
		t, err := b.expiredTurn(turns, f.turn, f.lane)
		if err != nil {
			return err
		}
		e, ok, err := b.entryAt(f.lane, f.lanePosition)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if f.turn == likely && !e.Exclusive {
			crashed[e.Session] = true
		}
		e = expired(e, t, f.turn == likely)
		e.TurnsAtCrash = len(running)
		if err := b.putEntry(e, inbox.Claimed); err != nil {
			return err
		}
	}
	if err := b.countCrashes(crashed); err != nil {
		return err
	}
	for _, t := range turns {
		t.Epoch, t.Lease, t.StepsAtCrash = 0, time.Time{}, t.Steps
		if err := b.saveTurn(t); err != nil {
			return err
		}
	}
	return nil
}

// expired returns an entry of turn t as waiting, with a crash added; blamed reports
// whether t is its likely cause.
func expired(e inbox.Entry, t turnRecord, blamed bool) inbox.Entry {
	if t.Steps > t.StepsAtCrash { // it made progress since the last crash
		e.Crashes, e.CrashesAlone = 0, 0
	}
	e.Crashes++
	if blamed {
		e.CrashesAlone++
	}
	e.State, e.Epoch, e.LeaseUntil = inbox.Waiting, 0, time.Time{}
	return e
}

// likelyCause returns the turn that has probably caused a crash, "" if that is
// unknown: the only one that was running, or the only one of them that had been
// running at an earlier crash. running has the earlier crashes of each turn.
func likelyCause(running map[string]int) (turn string) {
	for id, crashes := range running {
		switch {
		case len(running) == 1:
			return id
		case crashes == 0:
		case turn != "":
			return ""
		default:
			turn = id
		}
	}
	return turn
}

// countCrashes counts a crash for the sessions whose turn was the likely cause. A
// commit of the session resets the count.
func (b *batch) countCrashes(keys map[session.Key]bool) error {
	for k := range keys {
		id, err := b.currentID(k)
		if err != nil || id == "" {
			continue // the session does not exist yet
		}
		rec, ok, err := b.session(id)
		if err != nil || !ok {
			continue // Verify reports it
		}
		rec.Crashes++
		if err := b.putSession(rec); err != nil {
			return err
		}
	}
	return nil
}

// expiredTurn returns the turn of an expiring claim, from known if it is there.
func (b *batch) expiredTurn(known map[string]turnRecord, id string, l inbox.Lane) (turnRecord, error) {
	if t, ok := known[id]; ok {
		return t, nil
	}
	t, err := b.turnOrNew(id, l)
	if err == nil {
		known[id] = t
	}
	return t, err
}

// turnOrNew returns a turn. If it cannot be read, it returns a new one with the
// same ID and no steps.
func (b *batch) turnOrNew(id string, l inbox.Lane) (turnRecord, error) {
	t, ok, err := b.turn(id)
	if isDamage(err) {
		err = b.saveDamaged(bTurns, []byte(id), err)
		ok = false
	}
	if err != nil {
		return t, err
	}
	if !ok {
		t = turnRecord{ID: id, Lane: l, Began: b.now}
	}
	return t, nil
}
