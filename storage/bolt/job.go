package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	var jobs []schedule.Job
	err := s.view(ctx, "list jobs", func(r reader) error {
		c := r.bucket(bJobs).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			var j schedule.Job
			if content, err := checkChecksum(bJobs, k, v); err != nil || json.Unmarshal(content, &j) != nil {
				continue
			}
			if j.Removed.IsZero() {
				jobs = append(jobs, j)
			}
		}
		return nil
	})
	return jobs, err
}

// Job returns one job; ok is false if there is none or it was removed.
func (s *Store) Job(ctx context.Context, id schedule.JobID) (j schedule.Job, ok bool, err error) {
	err = s.view(ctx, "read job "+string(id), func(r reader) error {
		j, ok, err = r.job(id)
		return err
	})
	if err != nil || !ok || !j.Removed.IsZero() {
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
	var added []bool
	err := s.do(ctx, "add jobs", size, func(b *batch) error {
		added = make([]bool, len(jobs))
		for i, j := range jobs {
			_, ok, err := b.job(j.ID)
			if err != nil && !isDamage(err) {
				return err
			}
			if ok || err != nil {
				continue
			}
			if j.State.RecordedUntil.IsZero() {
				j.State.RecordedUntil = j.Schedule.Before(b.now).UTC()
			}
			if err := b.saveJob(j); err != nil {
				return err
			}
			added[i] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

var errNoJobID = errors.New("job has no ID")

// EditJob calls change with a job, stores the result with the next revision and
// returns it. No other edit runs at the same time. change may be called more
// than once. The error is schedule.ErrNoJob if there is no such job.
func (s *Store) EditJob(ctx context.Context, id schedule.JobID, change func(*schedule.Job) error) (schedule.Job, error) {
	var j schedule.Job
	err := s.do(ctx, "edit job "+string(id), 32<<10, func(b *batch) error {
		var ok bool
		var err error
		j, ok, err = b.job(id)
		if err != nil {
			return err
		}
		if !ok || !j.Removed.IsZero() {
			return schedule.ErrNoJob
		}
		if err := change(&j); err != nil {
			return err
		}
		j.ID = id
		j.Revision++
		return b.saveJob(j)
	})
	if err != nil {
		return schedule.Job{}, err
	}
	return j, nil
}

// RemoveJob removes a job and its occurrences. Its ID stays in use.
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
		for _, k := range b.occurrenceKeys(id) {
			if err := b.delete(bOccurrences, k); err != nil {
				return err
			}
		}
		return b.saveJob(schedule.Job{ID: id, Created: j.Created, Removed: b.now})
	})
}
