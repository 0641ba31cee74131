package schedule

import (
	"context"
	"fmt"

	"hermesd/gateway/chat"
)

// Update changes a job. A new schedule or zone counts from now on, and its runs
// anew.
func (b *Manager) Update(ctx context.Context, v Caller, name string, d JobPatch) (JobView, error) {
	now := b.now()
	if d.Context != nil { // names become ids before the job is taken
		probe := Job{}
		for _, c := range *d.Context {
			probe.Context = append(probe.Context, JobID(c))
		}
		if err := b.context(ctx, v, &probe); err != nil {
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

// Follow lets jobs that were made in a chat belong to the chat that now says it
// has become.
func (b *Manager) Follow(ctx context.Context, now func(chat.Address) chat.Address) error {
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return fmt.Errorf("jobs of a chat that has moved: %w", err)
	}
	for _, j := range jobs {
		if now(j.Origin) == j.Origin {
			continue
		}
		_, err := b.store.EditJob(ctx, j.ID, func(j *Job) error {
			j.Origin = now(j.Origin)
			return nil
		})
		if err != nil {
			return fmt.Errorf("job %s of a chat that has moved: %w", j.ID, err)
		}
	}
	return nil
}

// Pause keeps a job from being due. A run that goes on is not stopped.
func (b *Manager) Pause(ctx context.Context, v Caller, name string) (JobView, error) {
	return b.edit(ctx, v, name, func(j *Job) error {
		j.Paused, j.Updated = true, b.now().UTC()
		return nil
	})
}

// Resume ends a pause. What was due meanwhile does not run.
func (b *Manager) Resume(ctx context.Context, v Caller, name string) (JobView, error) {
	return b.edit(ctx, v, name, func(j *Job) error {
		now := b.now()
		switch {
		case j.State.Done:
			return invalid("the job %s is completed; give it another schedule or more runs, or run it now", j.ID)
		case j.Paused && j.Schedule.Kind == Once && now.Sub(j.Schedule.At) > pastTolerance:
			return invalid("the time of %s, %s, has gone by; give it another schedule, or run it now", j.ID, j.Schedule.At.Format("2006-01-02 15:04 MST"))
		case j.Paused:
			j.Paused, j.Updated, j.State.RecordedUntil = false, now.UTC(), j.Schedule.Before(now).UTC()
		}
		if err := b.rules.Validate(*j, now); err != nil { // what was fine then may not be now
			return err
		}
		return nil
	})
}

// Run asks for a run now, whatever the schedule says; it is not one of the runs
// that Repeat counts. ask names the request: the same again is the same run. If
// no daemon runs, the run begins when one does.
func (b *Manager) Run(ctx context.Context, v Caller, name, ask string) (JobView, error) {
	return b.edit(ctx, v, name, func(j *Job) error {
		switch {
		case ask != "" && j.State.ManualRunID == ask:
			return nil
		case !j.State.RunningOccurrence.IsZero():
			return invalid("the job %s is running already", j.ID)
		case !j.State.ManualRunAt.IsZero():
			return nil
		}
		j.State.ManualRunAt, j.State.ManualRunID = second(b.now()), ask
		return b.rules.Validate(*j, b.now())
	})
}

// Remove removes a job and its history. A run that goes on is not stopped.
func (b *Manager) Remove(ctx context.Context, v Caller, name string) (JobView, error) {
	f, err := b.find(ctx, v, name)
	if err != nil {
		return JobView{}, err
	}
	if err := b.store.RemoveJob(ctx, f.ID); err != nil {
		return JobView{}, fmt.Errorf("remove job %s: %w", f.ID, err)
	}
	b.wake(f.ID)
	return f, nil
}

// History returns the newest slots of a job, or of all that v sees if name is
// "", newest first.
func (b *Manager) History(ctx context.Context, v Caller, name string, most int) ([]Occurrence, error) {
	if name != "" {
		f, err := b.find(ctx, v, name)
		if err != nil {
			return nil, err
		}
		return b.slots(ctx, f.ID, most)
	}
	if v.Principal == Operator() {
		return b.slots(ctx, "", most)
	}
	list, err := b.List(ctx, v)
	if err != nil {
		return nil, err
	}
	var all []Occurrence
	for _, j := range list {
		s, err := b.slots(ctx, j.ID, most)
		if err != nil {
			return nil, err
		}
		all = append(all, s...)
	}
	sortSlots(all)
	return all[:min(len(all), most)], nil
}

func (b *Manager) slots(ctx context.Context, id JobID, most int) ([]Occurrence, error) {
	s, err := b.store.Occurrences(ctx, id, most)
	if err != nil {
		return nil, fmt.Errorf("read slots: %w", err)
	}
	if s == nil {
		s = []Occurrence{}
	}
	return s, nil
}
