package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
)

// keptSlots is how many slots of one job are kept.
const keptSlots = 500

func slotKey(id schedule.SlotID) []byte {
	return binary.BigEndian.AppendUint64(field(nil, string(id.Job)), uint64(max(id.At.Unix(), 0)))
}

func (r reader) slot(id schedule.SlotID) (sl schedule.Slot, ok bool, err error) {
	ok, err = r.load(bSlots, slotKey(id), &sl)
	return sl, ok, err
}

// slotKeys returns the keys of the slots of a job, oldest first.
func (r reader) slotKeys(id schedule.JobID) [][]byte {
	var keys [][]byte
	prefix := field(nil, string(id))
	c := r.bucket(bSlots).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return keys
}

// addSlot stores a slot of j that had no record (fresh), or one in its place,
// and forgets the oldest one over the number that is kept.
func (b *batch) addSlot(j *schedule.Job, sl schedule.Slot, fresh bool) error {
	if err := b.save(bSlots, slotKey(sl.SlotID), sl); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	if j.State.Slots++; j.State.Slots <= keptSlots {
		return nil
	}
	prefix := field(nil, string(j.ID))
	k, v := b.bucket(bSlots).Cursor().Seek(prefix)
	var oldest schedule.Slot
	if content, err := unseal(bSlots, k, v); err == nil && json.Unmarshal(content, &oldest) == nil && oldest.State == schedule.Running {
		return nil // until it has ended
	}
	j.State.Slots--
	return b.delete(bSlots, bytes.Clone(k))
}

// FireSlots accepts the entries of scheduled runs, each with the record of its
// slot.
func (s *Store) FireSlots(ctx context.Context, runs []inbox.ScheduledRun) ([]inbox.ScheduledRunResult, error) {
	size := 0
	for _, f := range runs {
		if f.Entry.Inbound.IdempotencyKey == "" {
			return nil, errNoKey
		}
		size += 3072 + len(f.Entry.Inbound.Text) + len(f.Run.Job.Prompt)
	}
	var fired []inbox.ScheduledRunResult
	err := s.do(ctx, "begin runs", size, func(b *batch) error {
		fired = make([]inbox.ScheduledRunResult, len(runs))
		for i, f := range runs {
			var err error
			if fired[i], err = b.fire(f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return fired, nil
}

func (b *batch) fire(f inbox.ScheduledRun) (inbox.ScheduledRunResult, error) {
	j, ok, err := b.job(f.Run.Job.ID)
	if err != nil && !isDamage(err) {
		return inbox.ScheduledRunResult{}, err
	}
	asked := f.Run.Asked && j.State.Asked.Equal(f.Run.Slot.At)
	if !ok || j.Revision != f.Run.Job.Revision || !j.State.Running.IsZero() || !asked && (f.Run.Asked || !j.Live()) {
		return inbox.ScheduledRunResult{Status: schedule.Changed}, nil
	}
	id := schedule.SlotID{Job: j.ID, At: f.Run.Slot.At.UTC().Truncate(time.Second)}
	old, seen, err := b.slot(id)
	if err != nil && !isDamage(err) {
		return inbox.ScheduledRunResult{}, err
	}
	if err != nil || seen && old.State != schedule.Missed {
		return inbox.ScheduledRunResult{Status: schedule.Known}, b.decided(&j, id.At, asked)
	}
	e := f.Entry
	e.Occurrence = &id
	a, err := b.accept(e)
	if err != nil {
		return inbox.ScheduledRunResult{}, err
	}
	if !a.IsNew {
		return inbox.ScheduledRunResult{Status: schedule.Known}, b.decided(&j, id.At, asked)
	}
	sl := schedule.Slot{SlotID: id, State: schedule.Running, Asked: asked, Entry: a.ID.String(), Began: b.now}
	if err := b.addSlot(&j, sl, !seen); err != nil {
		return inbox.ScheduledRunResult{}, err
	}
	j.State.Running = id.At
	if !asked {
		j.State.Done = j.Last(j.State.Runs)
		j.State.Runs++
	}
	return inbox.ScheduledRunResult{Status: schedule.Begun, Acceptance: a}, b.decided(&j, id.At, asked)
}

// decided stores j, whose slots up to at have records: of a run that was asked
// for, that it is not waited for any more.
func (b *batch) decided(j *schedule.Job, at time.Time, asked bool) error {
	if asked {
		j.State.Asked = time.Time{}
	} else {
		j.State.Decided = at
	}
	return b.saveJob(*j)
}

// Decide records slots that do not run.
func (s *Store) Decide(ctx context.Context, slots []schedule.Slot) error {
	return s.do(ctx, "record slots", 1024*len(slots), func(b *batch) error {
		for _, sl := range slots {
			if err := b.decide(sl); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *batch) decide(sl schedule.Slot) error {
	j, ok, err := b.job(sl.Job)
	if err != nil && !isDamage(err) {
		return err
	}
	if !ok || !j.Removed.IsZero() {
		return nil
	}
	sl.At = sl.At.UTC().Truncate(time.Second)
	_, seen, err := b.slot(sl.SlotID)
	if err != nil && !isDamage(err) {
		return err
	}
	if !seen && err == nil {
		if err := b.addSlot(&j, sl, true); err != nil {
			return err
		}
	}
	if j.Schedule.Kind == schedule.Once && !sl.Asked {
		j.State.Done = true
	}
	return b.decided(&j, sl.At, sl.Asked)
}

// endSlot ends the run of a slot, if it goes on.
func (b *batch) endSlot(id schedule.SlotID, turn string, end schedule.Ending) error {
	sl, ok, err := b.slot(id)
	if err != nil && !isDamage(err) {
		return err
	}
	if ok && sl.State == schedule.Running {
		sl.State, sl.Result, sl.Why, sl.Turn, sl.Ended = schedule.Ran, end.Result, end.Why, turn, b.now
		if err := b.save(bSlots, slotKey(id), sl); err != nil {
			return err
		}
	}
	j, ok, err := b.job(id.Job)
	if err != nil && !isDamage(err) {
		return err
	}
	if !ok || !j.State.Running.Equal(id.At) {
		return nil
	}
	j.State.Running, j.State.Ended, j.State.Result, j.State.Why = time.Time{}, b.now, end.Result, end.Why
	if j.State.Failures++; end.Result == schedule.OK {
		j.State.Failures = 0
	}
	return b.saveJob(j)
}

// endLost ends the run whose entry is damaged, so that its job goes on.
func (b *batch) endLost(entry inbox.ID, end schedule.Ending) error {
	c := b.bucket(bSlots).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var sl schedule.Slot
		if content, err := unseal(bSlots, k, v); err != nil || json.Unmarshal(content, &sl) != nil {
			continue
		}
		if sl.State == schedule.Running && sl.Entry == entry.String() {
			return b.endSlot(sl.SlotID, sl.Turn, end)
		}
	}
	return nil
}

// undelivered says of the run whose answer is r that it failed: it is not
// delivered.
func (b *batch) undelivered(r outbox.Row) error {
	t, ok, err := b.turn(r.Turn)
	if !ok || err != nil {
		return ignoreDamage(err)
	}
	for _, id := range t.Entries {
		e, ok, err := b.entry(id)
		if err != nil && !isDamage(err) {
			return err
		}
		if !ok || e.Occurrence == nil {
			continue
		}
		if err := b.failSlot(*e.Occurrence, "not delivered to "+r.Msg.To.String()+": "+r.Reason); err != nil {
			return err
		}
	}
	return nil
}

func ignoreDamage(err error) error {
	if isDamage(err) {
		return nil
	}
	return err
}

// failSlot says of a run that ended well that it did not.
func (b *batch) failSlot(id schedule.SlotID, why string) error {
	sl, ok, err := b.slot(id)
	if !ok || err != nil || sl.State != schedule.Ran || sl.Result != schedule.OK {
		return ignoreDamage(err)
	}
	sl.Result, sl.Why = schedule.Failed, why
	if err := b.save(bSlots, slotKey(id), sl); err != nil {
		return err
	}
	j, ok, err := b.job(id.Job)
	if !ok || err != nil || !j.State.Ended.Equal(sl.Ended) {
		return ignoreDamage(err)
	}
	j.State.Result, j.State.Why = schedule.Failed, why
	j.State.Failures++
	return b.saveJob(j)
}

// Slots returns the newest slots of a job, or of all, newest first.
func (s *Store) Slots(ctx context.Context, id schedule.JobID, most int) ([]schedule.Slot, error) {
	var found []schedule.Slot
	err := s.view(ctx, "slots", func(r reader) error {
		var prefix []byte
		if id != "" {
			prefix = field(nil, string(id))
		}
		c := r.bucket(bSlots).Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			var sl schedule.Slot
			if content, err := unseal(bSlots, k, v); err != nil || json.Unmarshal(content, &sl) != nil {
				continue // Verify names it
			}
			if found = append(found, sl); len(found) >= 2*most+keptSlots {
				found = latest(found, most)
			}
		}
		found = latest(found, most)
		for i := range found {
			found[i].Delivery = r.delivery(found[i])
			if found[i].Delivery == schedule.Waiting && found[i].Result == schedule.OK {
				found[i].Result = schedule.Pending
			}
		}
		return nil
	})
	return found, err
}

// latest returns the newest slots, newest first, at most most.
func latest(slots []schedule.Slot, most int) []schedule.Slot {
	slices.SortStableFunc(slots, func(x, y schedule.Slot) int { return y.At.Compare(x.At) })
	return slots[:min(len(slots), max(most, 0))]
}

// delivery is what became of the answers of a run.
func (r reader) delivery(sl schedule.Slot) schedule.Delivery {
	t, ok, err := r.turn(sl.Turn)
	if sl.Turn == "" || !ok || err != nil {
		return ""
	}
	state := schedule.Delivery("")
	for _, id := range t.Rows {
		row, ok, err := r.row(id)
		switch {
		case !ok || err != nil || row.Role == outbox.Preview:
		case row.DeadLetter():
			return schedule.Undelivered
		case row.State != outbox.Sent:
			state = schedule.Waiting
		case state == "":
			state = schedule.Delivered
		}
	}
	return state
}

func (r reader) fitsJob(k, content []byte) error {
	var j schedule.Job
	if err := decode(bJobs, k, content, &j); err != nil {
		return err
	}
	if j.State.Running.IsZero() {
		return nil
	}
	sl, ok, err := r.slot(schedule.SlotID{Job: j.ID, At: j.State.Running})
	if err := missing(err, ok, "the slot of its run"); err != nil {
		return err
	}
	if sl.State != schedule.Running {
		return errors.New("the slot of its run says that it has ended")
	}
	return nil
}

func (r reader) fitsSlot(k, content []byte) error {
	var sl schedule.Slot
	if err := decode(bSlots, k, content, &sl); err != nil {
		return err
	}
	if !bytes.Equal(slotKey(sl.SlotID), k) {
		return errors.New("it is of another job or time")
	}
	j, ok, err := r.job(sl.Job)
	if err := missing(err, ok, "its job"); err != nil {
		return err
	}
	if sl.State == schedule.Running && !j.State.Running.Equal(sl.At) {
		return errors.New("it runs, and its job says otherwise")
	}
	return nil
}
