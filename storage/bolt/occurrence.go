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
	"hermesd/gateway/store"
)

// maxOccurrences is the number of occurrences that are kept per job.
const maxOccurrences = 500

func occurrencePrefix(id schedule.JobID) []byte { return appendField(nil, string(id)) }

func occurrenceKey(id schedule.OccurrenceID) []byte {
	return binary.BigEndian.AppendUint64(occurrencePrefix(id.Job), uint64(max(id.DueAt.Unix(), 0)))
}

func (r reader) occurrence(id schedule.OccurrenceID) (occ schedule.Occurrence, ok bool, err error) {
	ok, err = r.load(bOccurrences, occurrenceKey(id), &occ)
	return occ, ok, err
}

// addOccurrence stores an occurrence of j. If isNew, it counts it and deletes
// the oldest one beyond maxOccurrences.
func (b *batch) addOccurrence(j *schedule.Job, occ schedule.Occurrence, isNew bool) error {
	if err := b.save(bOccurrences, occurrenceKey(occ.OccurrenceID), occ); err != nil {
		return err
	}
	if !isNew {
		return nil
	}
	if j.State.OccurrenceCount++; j.State.OccurrenceCount <= maxOccurrences {
		return nil
	}
	k, v := b.bucket(bOccurrences).Cursor().Seek(occurrencePrefix(j.ID))
	var oldest schedule.Occurrence
	if content, err := checkChecksum(bOccurrences, k, v); err == nil && json.Unmarshal(content, &oldest) == nil && oldest.State == schedule.Running {
		return nil // kept until it has ended
	}
	j.State.OccurrenceCount--
	return b.delete(bOccurrences, bytes.Clone(k))
}

// StartRuns accepts the entries of scheduled runs, each together with the
// record of its occurrence.
func (s *Store) StartRuns(ctx context.Context, runs []store.ScheduledRun) ([]store.ScheduledRunResult, error) {
	size := 0
	for _, run := range runs {
		if run.Entry.Inbound.IdempotencyKey == "" {
			return nil, errNoKey
		}
		size += 3072 + len(run.Entry.Inbound.Text) + len(run.Run.Job.Prompt)
	}
	return write(ctx, s, "start runs", size, func(b *batch) ([]store.ScheduledRunResult, error) {
		results := make([]store.ScheduledRunResult, len(runs))
		for i, run := range runs {
			var err error
			if results[i], err = b.startRun(run); err != nil {
				return nil, err
			}
		}
		return results, nil
	})
}

func (b *batch) startRun(run store.ScheduledRun) (store.ScheduledRunResult, error) {
	j, ok, err := b.job(run.Run.Job.ID)
	if err != nil && !isDamage(err) {
		return store.ScheduledRunResult{}, err
	}
	isManual := run.Run.Manual && j.State.ManualRunAt.Equal(run.Run.Occurrence.DueAt)
	if !ok || j.Revision != run.Run.Job.Revision || !j.State.RunningOccurrence.IsZero() || !isManual && (run.Run.Manual || !j.Active()) {
		return store.ScheduledRunResult{Status: schedule.JobChanged}, nil
	}
	id := schedule.OccurrenceID{Job: j.ID, DueAt: run.Run.Occurrence.DueAt.UTC().Truncate(time.Second)}
	old, exists, err := b.occurrence(id)
	if err != nil && !isDamage(err) {
		return store.ScheduledRunResult{}, err
	}
	if err != nil || exists && old.State != schedule.Missed {
		return store.ScheduledRunResult{Status: schedule.AlreadyRecorded}, b.saveRecorded(&j, id.DueAt, isManual)
	}
	e := run.Entry
	e.Occurrence = &id
	a, err := b.accept(store.Admission{Entry: e})
	if err != nil {
		return store.ScheduledRunResult{}, err
	}
	if !a.IsNew {
		return store.ScheduledRunResult{Status: schedule.AlreadyRecorded}, b.saveRecorded(&j, id.DueAt, isManual)
	}
	occ := schedule.Occurrence{OccurrenceID: id, State: schedule.Running, Manual: isManual, Entry: a.ID.String(), Began: b.now}
	if err := b.addOccurrence(&j, occ, !exists); err != nil {
		return store.ScheduledRunResult{}, err
	}
	j.State.RunningOccurrence = id.DueAt
	if !isManual {
		j.State.Done = j.Last(j.State.Runs)
		j.State.Runs++
	}
	return store.ScheduledRunResult{Status: schedule.Started, Acceptance: a}, b.saveRecorded(&j, id.DueAt, isManual)
}

// saveRecorded stores j after an occurrence at that time got its record. For a
// manual run it clears the request.
func (b *batch) saveRecorded(j *schedule.Job, at time.Time, isManual bool) error {
	if isManual {
		j.State.ManualRunAt = time.Time{}
	} else {
		j.State.RecordedUntil = at
	}
	return b.saveJob(*j)
}

// RecordNotRun records occurrences that do not run.
func (s *Store) RecordNotRun(ctx context.Context, occurrences []schedule.Occurrence) error {
	return s.do(ctx, "record occurrences", 1024*len(occurrences), func(b *batch) error {
		for _, occ := range occurrences {
			if err := b.recordNotRun(occ); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *batch) recordNotRun(occ schedule.Occurrence) error {
	j, ok, err := b.job(occ.Job)
	if err != nil && !isDamage(err) {
		return err
	}
	if !ok || !j.Removed.IsZero() {
		return nil
	}
	occ.DueAt = occ.DueAt.UTC().Truncate(time.Second)
	_, exists, err := b.occurrence(occ.OccurrenceID)
	if err != nil && !isDamage(err) {
		return err
	}
	if !exists && err == nil {
		if err := b.addOccurrence(&j, occ, true); err != nil {
			return err
		}
	}
	if j.Schedule.Kind == schedule.Once && !occ.Manual {
		j.State.Done = true
	}
	return b.saveRecorded(&j, occ.DueAt, occ.Manual)
}

// endRun ends the run of an occurrence if it is running.
func (b *batch) endRun(id schedule.OccurrenceID, turn string, end schedule.RunOutcome) error {
	occ, ok, err := b.occurrence(id)
	if err != nil && !isDamage(err) {
		return err
	}
	if ok && occ.State == schedule.Running {
		occ.State, occ.Result, occ.Reason, occ.Turn, occ.Ended = schedule.Ran, end.Result, end.Reason, turn, b.now
		if err := b.save(bOccurrences, occurrenceKey(id), occ); err != nil {
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
	if !j.Removed.IsZero() {
		if err := b.delete(bOccurrences, occurrenceKey(id)); err != nil {
			return err
		}
		return b.saveRemoved(j)
	}
	j.State.RunningOccurrence, j.State.Ended, j.State.Result, j.State.Reason = time.Time{}, b.now, end.Result, end.Reason
	if j.State.Failures++; end.Result == schedule.OK {
		j.State.Failures = 0
	}
	return b.saveJob(j)
}

// endDamagedRun ends the run whose entry is damaged, so that its job continues.
func (b *batch) endDamagedRun(entry inbox.ID, end schedule.RunOutcome) error {
	for _, occ := range records[schedule.Occurrence](b.reader, bOccurrences, nil) {
		if occ.State == schedule.Running && occ.Entry == entry.String() {
			return b.endRun(occ.OccurrenceID, occ.Turn, end)
		}
	}
	return nil
}

// failUndelivered marks the run whose answer is r as failed: the answer was not
// delivered.
func (b *batch) failUndelivered(r outbox.Row) error {
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
		if err := b.failRun(*e.Occurrence, "not delivered to "+r.Msg.To.String()+": "+r.Reason); err != nil {
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

// failRun turns a successful run into a failed one.
func (b *batch) failRun(id schedule.OccurrenceID, reason string) error {
	occ, ok, err := b.occurrence(id)
	if !ok || err != nil || occ.State != schedule.Ran || occ.Result != schedule.OK {
		return ignoreDamage(err)
	}
	occ.Result, occ.Reason = schedule.Failed, reason
	if err := b.save(bOccurrences, occurrenceKey(id), occ); err != nil {
		return err
	}
	j, ok, err := b.job(id.Job)
	if !ok || err != nil || !j.State.Ended.Equal(occ.Ended) {
		return ignoreDamage(err)
	}
	j.State.Result, j.State.Reason = schedule.Failed, reason
	j.State.Failures++
	return b.saveJob(j)
}

// Occurrences returns the newest occurrences of a job ("": of all jobs), newest
// first, at most limit.
func (s *Store) Occurrences(ctx context.Context, id schedule.JobID, limit int) ([]schedule.Occurrence, error) {
	return read(ctx, s, "list occurrences", func(r reader) (found []schedule.Occurrence, err error) {
		var prefix []byte
		if id != "" {
			prefix = occurrencePrefix(id)
		}
		for _, occ := range records[schedule.Occurrence](r, bOccurrences, prefix) {
			if found = append(found, occ); len(found) >= 2*limit+maxOccurrences {
				found = newestOccurrences(found, limit)
			}
		}
		found = newestOccurrences(found, limit)
		for i := range found {
			found[i].Delivery = r.deliveryStatus(found[i])
			if found[i].Delivery == schedule.Waiting && found[i].Result == schedule.OK {
				found[i].Result = schedule.Pending
			}
		}
		return found, nil
	})
}

// newestOccurrences returns the newest occurrences, newest first, at most
// limit.
func newestOccurrences(occurrences []schedule.Occurrence, limit int) []schedule.Occurrence {
	slices.SortStableFunc(occurrences, func(x, y schedule.Occurrence) int { return y.DueAt.Compare(x.DueAt) })
	return occurrences[:min(len(occurrences), max(limit, 0))]
}

// deliveryStatus returns the delivery status of the answers of a run.
func (r reader) deliveryStatus(occ schedule.Occurrence) schedule.DeliveryStatus {
	t, ok, err := r.turn(occ.Turn)
	if occ.Turn == "" || !ok || err != nil {
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

func (r reader) checkJob(k, content []byte) error {
	var j schedule.Job
	if err := decode(bJobs, k, content, &j); err != nil {
		return err
	}
	if j.State.RunningOccurrence.IsZero() {
		return nil
	}
	occ, ok, err := r.occurrence(schedule.OccurrenceID{Job: j.ID, DueAt: j.State.RunningOccurrence})
	if err := missingError(err, ok, "occurrence of the run"); err != nil {
		return err
	}
	if occ.State != schedule.Running {
		return errors.New("occurrence of the run has ended")
	}
	return nil
}

func (r reader) checkOccurrence(k, content []byte) error {
	var occ schedule.Occurrence
	if err := decode(bOccurrences, k, content, &occ); err != nil {
		return err
	}
	if !bytes.Equal(occurrenceKey(occ.OccurrenceID), k) {
		return errors.New("key does not match job and time")
	}
	j, ok, err := r.job(occ.Job)
	if err := missingError(err, ok, "job of the occurrence"); err != nil {
		return err
	}
	if occ.State == schedule.Running && !j.State.RunningOccurrence.Equal(occ.DueAt) {
		return errors.New("occurrence is running but its job is not")
	}
	return nil
}
