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

func slotKey(id schedule.OccurrenceID) []byte {
	return binary.BigEndian.AppendUint64(field(nil, string(id.Job)), uint64(max(id.DueAt.Unix(), 0)))
}

func (r reader) slot(id schedule.OccurrenceID) (sl schedule.Occurrence, ok bool, err error) {
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
func (b *batch) addSlot(j *schedule.Job, sl schedule.Occurrence, fresh bool) error {
	if err := b.save(bSlots, slotKey(sl.OccurrenceID), sl); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	if j.State.OccurrenceCount++; j.State.OccurrenceCount <= keptSlots {
		return nil
	}
	prefix := field(nil, string(j.ID))
	k, v := b.bucket(bSlots).Cursor().Seek(prefix)
	var oldest schedule.Occurrence
	if content, err := checkChecksum(bSlots, k, v); err == nil && json.Unmarshal(content, &oldest) == nil && oldest.State == schedule.Running {
		return nil // until it has ended
	}
	j.State.OccurrenceCount--
	return b.delete(bSlots, bytes.Clone(k))
}

// StartRuns accepts the entries of scheduled runs, each with the record of its
// slot.
func (s *Store) StartRuns(ctx context.Context, runs []inbox.ScheduledRun) ([]inbox.ScheduledRunResult, error) {
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
	asked := f.Run.Manual && j.State.ManualRunAt.Equal(f.Run.Occurrence.DueAt)
	if !ok || j.Revision != f.Run.Job.Revision || !j.State.RunningOccurrence.IsZero() || !asked && (f.Run.Manual || !j.Active()) {
		return inbox.ScheduledRunResult{Status: schedule.JobChanged}, nil
	}
	id := schedule.OccurrenceID{Job: j.ID, DueAt: f.Run.Occurrence.DueAt.UTC().Truncate(time.Second)}
	old, seen, err := b.slot(id)
	if err != nil && !isDamage(err) {
		return inbox.ScheduledRunResult{}, err
	}
	if err != nil || seen && old.State != schedule.Missed {
		return inbox.ScheduledRunResult{Status: schedule.AlreadyRecorded}, b.decided(&j, id.DueAt, asked)
	}
	e := f.Entry
	e.Occurrence = &id
	a, err := b.accept(e)
	if err != nil {
		return inbox.ScheduledRunResult{}, err
	}
	if !a.IsNew {
		return inbox.ScheduledRunResult{Status: schedule.AlreadyRecorded}, b.decided(&j, id.DueAt, asked)
	}
	sl := schedule.Occurrence{OccurrenceID: id, State: schedule.Running, Manual: asked, Entry: a.ID.String(), Began: b.now}
	if err := b.addSlot(&j, sl, !seen); err != nil {
		return inbox.ScheduledRunResult{}, err
	}
	j.State.RunningOccurrence = id.DueAt
	if !asked {
		j.State.Done = j.Last(j.State.Runs)
		j.State.Runs++
	}
	return inbox.ScheduledRunResult{Status: schedule.Started, Acceptance: a}, b.decided(&j, id.DueAt, asked)
}

// decided stores j, whose slots up to at have records: of a run that was asked
// for, that it is not waited for any more.
func (b *batch) decided(j *schedule.Job, at time.Time, asked bool) error {
	if asked {
		j.State.ManualRunAt = time.Time{}
	} else {
		j.State.RecordedUntil = at
	}
	return b.saveJob(*j)
}

// RecordNotRun records slots that do not run.
func (s *Store) RecordNotRun(ctx context.Context, slots []schedule.Occurrence) error {
	return s.do(ctx, "record slots", 1024*len(slots), func(b *batch) error {
		for _, sl := range slots {
			if err := b.decide(sl); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *batch) decide(sl schedule.Occurrence) error {
	j, ok, err := b.job(sl.Job)
	if err != nil && !isDamage(err) {
		return err
	}
	if !ok || !j.Removed.IsZero() {
		return nil
	}
	sl.DueAt = sl.DueAt.UTC().Truncate(time.Second)
	_, seen, err := b.slot(sl.OccurrenceID)
	if err != nil && !isDamage(err) {
		return err
	}
	if !seen && err == nil {
		if err := b.addSlot(&j, sl, true); err != nil {
			return err
		}
	}
	if j.Schedule.Kind == schedule.Once && !sl.Manual {
		j.State.Done = true
	}
	return b.decided(&j, sl.DueAt, sl.Manual)
}

// endSlot ends the run of a slot, if it goes on.
func (b *batch) endSlot(id schedule.OccurrenceID, turn string, end schedule.RunOutcome) error {
	sl, ok, err := b.slot(id)
	if err != nil && !isDamage(err) {
		return err
	}
	if ok && sl.State == schedule.Running {
		sl.State, sl.Result, sl.Reason, sl.Turn, sl.Ended = schedule.Ran, end.Result, end.Reason, turn, b.now
		if err := b.save(bSlots, slotKey(id), sl); err != nil {
			return err
		}
	}
	j, ok, err := b.job(id.Job)
	if err != nil && !isDamage(err) {
		return err
	}
	if !ok || !j.State.RunningOccurrence.Equal(id.DueAt) {
		return nil
	}
	j.State.RunningOccurrence, j.State.Ended, j.State.Result, j.State.Reason = time.Time{}, b.now, end.Result, end.Reason
	if j.State.Failures++; end.Result == schedule.OK {
		j.State.Failures = 0
	}
	return b.saveJob(j)
}

// endLost ends the run whose entry is damaged, so that its job goes on.
func (b *batch) endLost(entry inbox.ID, end schedule.RunOutcome) error {
	c := b.bucket(bSlots).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var sl schedule.Occurrence
		if content, err := checkChecksum(bSlots, k, v); err != nil || json.Unmarshal(content, &sl) != nil {
			continue
		}
		if sl.State == schedule.Running && sl.Entry == entry.String() {
			return b.endSlot(sl.OccurrenceID, sl.Turn, end)
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
func (b *batch) failSlot(id schedule.OccurrenceID, why string) error {
	sl, ok, err := b.slot(id)
	if !ok || err != nil || sl.State != schedule.Ran || sl.Result != schedule.OK {
		return ignoreDamage(err)
	}
	sl.Result, sl.Reason = schedule.Failed, why
	if err := b.save(bSlots, slotKey(id), sl); err != nil {
		return err
	}
	j, ok, err := b.job(id.Job)
	if !ok || err != nil || !j.State.Ended.Equal(sl.Ended) {
		return ignoreDamage(err)
	}
	j.State.Result, j.State.Reason = schedule.Failed, why
	j.State.Failures++
	return b.saveJob(j)
}

// Occurrences returns the newest slots of a job, or of all, newest first.
func (s *Store) Occurrences(ctx context.Context, id schedule.JobID, most int) ([]schedule.Occurrence, error) {
	var found []schedule.Occurrence
	err := s.view(ctx, "slots", func(r reader) error {
		var prefix []byte
		if id != "" {
			prefix = field(nil, string(id))
		}
		c := r.bucket(bSlots).Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			var sl schedule.Occurrence
			if content, err := checkChecksum(bSlots, k, v); err != nil || json.Unmarshal(content, &sl) != nil {
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
func latest(slots []schedule.Occurrence, most int) []schedule.Occurrence {
	slices.SortStableFunc(slots, func(x, y schedule.Occurrence) int { return y.DueAt.Compare(x.DueAt) })
	return slots[:min(len(slots), max(most, 0))]
}

// delivery is what became of the answers of a run.
func (r reader) delivery(sl schedule.Occurrence) schedule.DeliveryStatus {
	t, ok, err := r.turn(sl.Turn)
	if sl.Turn == "" || !ok || err != nil {
		return ""
	}
	state := schedule.DeliveryStatus("")
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
	if j.State.RunningOccurrence.IsZero() {
		return nil
	}
	sl, ok, err := r.slot(schedule.OccurrenceID{Job: j.ID, DueAt: j.State.RunningOccurrence})
	if err := missing(err, ok, "the slot of its run"); err != nil {
		return err
	}
	if sl.State != schedule.Running {
		return errors.New("the slot of its run says that it has ended")
	}
	return nil
}

func (r reader) fitsSlot(k, content []byte) error {
	var sl schedule.Occurrence
	if err := decode(bSlots, k, content, &sl); err != nil {
		return err
	}
	if !bytes.Equal(slotKey(sl.OccurrenceID), k) {
		return errors.New("it is of another job or time")
	}
	j, ok, err := r.job(sl.Job)
	if err := missing(err, ok, "its job"); err != nil {
		return err
	}
	if sl.State == schedule.Running && !j.State.RunningOccurrence.Equal(sl.DueAt) {
		return errors.New("it runs, and its job says otherwise")
	}
	return nil
}
