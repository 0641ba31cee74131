package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hermesd/gateway/chat"
)

// Update changes a job. A new schedule or zone takes effect now, and its runs are
// counted from 0.
func (b *Manager) Update(ctx context.Context, v Caller, name string, d JobPatch) (JobView, error) {
	now := b.now()
	if d.Context != nil { // resolve names outside the edit
		f, err := b.find(ctx, v, name)
		if err != nil {
			return JobView{}, err
		}
		probe := Job{ID: f.ID, Creator: f.Creator}
		for _, c := range *d.Context {
			probe.Context = append(probe.Context, JobID(c))
		}
		if err := b.resolveContext(ctx, v, &probe); err != nil {
			return JobView{}, err
		}
		ids := make([]string, len(probe.Context))
		for i, c := range probe.Context {
			ids[i] = string(c)
		}
		d.Context = &ids
	}
	return b.edit(ctx, v, name, func(j *Job) error { return b.apply(j, d, now) })
}

// Follow updates the origin of all jobs after a chat migration. current returns the
// present address of a chat.
func (b *Manager) Follow(ctx context.Context, current func(chat.Address) chat.Address) error {
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return fmt.Errorf("read jobs for chat migration: %w", err)
	}
	for _, j := range jobs {
		if current(j.Origin) == j.Origin {
			continue
		}
		_, err := b.store.EditJob(ctx, j.ID, func(j *Job) error {
			j.Origin = current(j.Origin)
			return nil
		})
		if err != nil {
			return fmt.Errorf("move job %s to migrated chat: %w", j.ID, err)
		}
	}
	return nil
}

// Pause pauses a job. A current run is not stopped.
func (b *Manager) Pause(ctx context.Context, v Caller, name string) (JobView, error) {
	return b.edit(ctx, v, name, func(j *Job) error {
		j.Paused, j.Updated = true, b.now().UTC()
		return nil
	})
}

// errPermitted ends an edit of a job that need not be paused.
var errPermitted = errors.New("schedule: job is permitted")

// PauseForbidden pauses a job that has what its creator may not have, and returns why.
// The reason is nil if the job is permitted or is not active.
func (b *Manager) PauseForbidden(ctx context.Context, id JobID) (reason, err error) {
	_, err = b.store.EditJob(ctx, id, func(j *Job) error {
		if reason = CheckRights(*j, b.validator.Level(*j)); reason == nil || !j.Active() {
			return errPermitted
		}
		j.Paused, j.PauseReason, j.Updated = true, reason.Error(), b.now().UTC()
		return nil
	})
	switch {
	case errors.Is(err, errPermitted), errors.Is(err, ErrNoJob):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("pause job %s: %w", id, err)
	}
	b.wake(id)
	return reason, nil
}

// Resume ends a pause. Occurrences that were due during the pause do not run.
func (b *Manager) Resume(ctx context.Context, v Caller, name string) (JobView, error) {
	return b.edit(ctx, v, name, func(j *Job) error {
		now := b.now()
		switch {
		case j.State.Done:
			return invalid("the job %s is completed; give it another schedule or more runs, or run it now", j.ID)
		case j.Paused && j.Schedule.Kind == Once && now.Sub(j.Schedule.At) > pastTolerance:
			return invalid("the time of %s, %s, has gone by; give it another schedule, or run it now", j.ID, j.Schedule.At.Format("2006-01-02 15:04 MST"))
		case j.Paused:
			j.Paused, j.PauseReason, j.Updated, j.State.RecordedUntil = false, "", now.UTC(), j.Schedule.Before(now).UTC()
		}
		if err := b.validator.Validate(*j, now); err != nil { // the job may have become invalid
			return err
		}
		return nil
	})
}

// Run requests a manual run, independent of the schedule and not counted for Repeat.
// requestID identifies the request: repeating it does not add a run. If the daemon is
// down, the run starts when the daemon does.
func (b *Manager) Run(ctx context.Context, v Caller, name, requestID string) (JobView, error) {
	return b.edit(ctx, v, name, func(j *Job) error {
		switch {
		case requestID != "" && j.State.ManualRunID == requestID:
			return nil
		case !j.State.RunningOccurrence.IsZero():
			return invalid("the job %s is running already", j.ID)
		case !j.State.ManualRunAt.IsZero():
			return nil
		}
		j.State.ManualRunAt, j.State.ManualRunID = ceilSecond(b.now()), requestID
		return b.validator.Validate(*j, b.now())
	})
}

// Remove removes a job and its history. A current run is not stopped, and its answer is
// delivered.
func (b *Manager) Remove(ctx context.Context, v Caller, name string) (JobView, error) {
	f, err := b.findToChange(ctx, v, name)
	if err != nil {
		return JobView{}, err
	}
	if err := b.store.RemoveJob(ctx, f.ID); err != nil {
		return JobView{}, fmt.Errorf("remove job %s: %w", f.ID, err)
	}
	b.wake(f.ID)
	return f, nil
}

// History returns the newest occurrences of a job, or of all jobs that v can see if
// name is "": at most limit, newest first.
func (b *Manager) History(ctx context.Context, v Caller, name string, limit int) ([]Occurrence, error) {
	if name != "" {
		f, err := b.find(ctx, v, name)
		if err != nil {
			return nil, err
		}
		return b.occurrences(ctx, f.ID, limit)
	}
	if v.Principal == Operator() {
		return b.occurrences(ctx, "", limit)
	}
	list, err := b.List(ctx, v)
	if err != nil {
		return nil, err
	}
	var all []Occurrence
	for _, j := range list {
		s, err := b.occurrences(ctx, j.ID, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, s...)
	}
	slices.SortStableFunc(all, func(x, y Occurrence) int { return y.DueAt.Compare(x.DueAt) }) // newest first
	return all[:min(len(all), limit)], nil
}

func (b *Manager) occurrences(ctx context.Context, id JobID, limit int) ([]Occurrence, error) {
	s, err := b.store.Occurrences(ctx, id, limit)
	if err != nil {
		return nil, fmt.Errorf("read occurrences: %w", err)
	}
	if s == nil {
		s = []Occurrence{}
	}
	return s, nil
}
