package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"hermesd/gateway/schedule"
)

func (r reader) job(id schedule.JobID) (j schedule.Job, ok bool, err error) {
	if id == "" {
		return j, false, nil
	}
	ok, err = r.load(bJobs, []byte(id), &j)
	return j, ok, err
}

func (b *batch) saveJob(j schedule.Job) error { return b.save(bJobs, []byte(j.ID), j) }

// Jobs returns all jobs that are not removed, ordered by ID. Jobs that cannot
// be read are omitted; Verify reports them.
func (s *Store) Jobs(ctx context.Context) ([]schedule.Job, error) {
	return read(ctx, s, "list jobs", func(r reader) (jobs []schedule.Job, err error) {
		for _, j := range records[schedule.Job](r, bJobs, nil) {
			if j.Removed.IsZero() {
				jobs = append(jobs, j)
			}
		}
		return jobs, nil
	})
}

// Job returns one job; ok is false if there is none or it was removed. A removed
// job whose run continues is returned with Removed set.
func (s *Store) Job(ctx context.Context, id schedule.JobID) (j schedule.Job, ok bool, err error) {
	err = s.view(ctx, "read job "+string(id), func(r reader) error {
		j, ok, err = r.job(id)
		return err
	})
	if err != nil || !ok || !j.Removed.IsZero() && j.State.RunningOccurrence.IsZero() {
		return schedule.Job{}, false, err
	}
	return j, true, nil
}

// AddJobs adds those jobs whose IDs were never used before, and reports for
// each job whether it was added.
func (s *Store) AddJobs(ctx context.Context, jobs []schedule.Job) ([]bool, error) {
	size := 0
	for _, j := range jobs {
		if j.ID == "" {
			return nil, fmt.Errorf("add job %q: %w", j.Name, errNoJobID)
		}
		size += 1024 + len(j.Prompt)
	}
	return write(ctx, s, "add jobs", size, func(b *batch) ([]bool, error) {
		added := make([]bool, len(jobs))
		for i, j := range jobs {
			_, ok, err := b.job(j.ID)
			if err != nil && !isDamage(err) {
				return nil, err
			}
			if ok || err != nil {
				continue
			}
			if j.State.RecordedUntil.IsZero() {
				j.State.RecordedUntil = j.Schedule.Before(b.now).UTC()
			}
			if err := b.saveJob(j); err != nil {
				return nil, err
			}
			added[i] = true
		}
		return added, nil
	})
}

var errNoJobID = errors.New("job has no ID")

// EditJob calls change with a job, stores the result with the next revision and
// returns it. No other edit runs at the same time. change may be called more
// than once. The error is schedule.ErrNoJob if there is no such job.
func (s *Store) EditJob(ctx context.Context, id schedule.JobID, change func(*schedule.Job) error) (schedule.Job, error) {
	return write(ctx, s, "edit job "+string(id), 32<<10, func(b *batch) (schedule.Job, error) {
		j, ok, err := b.job(id)
		if err != nil {
			return j, err
		}
		if !ok || !j.Removed.IsZero() {
			return j, schedule.ErrNoJob
		}
		if err := change(&j); err != nil {
			return j, err
		}
		j.ID = id
		j.Revision++
		return j, b.saveJob(j)
	})
}

// RemoveJob removes a job and its occurrences. Its ID stays in use. While it
// runs, the job and the occurrence of the run stay; endRun removes them.
func (s *Store) RemoveJob(ctx context.Context, id schedule.JobID) error {
	return s.do(ctx, "remove job "+string(id), 32<<10, func(b *batch) error {
		j, ok, err := b.job(id)
		if err != nil {
			return err
		}
		if !ok {
			return schedule.ErrNoJob
		}
		if !j.Removed.IsZero() {
			return nil
		}
		j.Removed = b.now
		running := occurrenceKey(schedule.OccurrenceID{Job: id, DueAt: j.State.RunningOccurrence})
		keys := b.keys(bOccurrences, occurrencePrefix(id))
		if err := b.deleteAll(bOccurrences, slices.DeleteFunc(keys, func(k []byte) bool { return bytes.Equal(k, running) })); err != nil {
			return err
		}
		if !j.State.RunningOccurrence.IsZero() {
			return b.saveJob(j)
		}
		return b.saveRemoved(j)
	})
}

// saveRemoved stores what is kept of a removed job that does not run.
func (b *batch) saveRemoved(j schedule.Job) error {
	return b.saveJob(schedule.Job{ID: j.ID, Created: j.Created, Removed: j.Removed})
}
