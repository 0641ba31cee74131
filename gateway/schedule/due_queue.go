package schedule

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// A plannedJob is a job with its plan, as the Scheduler holds it.
type plannedJob struct {
	job  Job
	plan Plan
	next time.Time // when it is due next; zero: never
	at   int       // its place in the agenda; -1: it is in none
}

// load reads the jobs that have changed.
func (s *Scheduler) load(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	all, dirty := s.all, s.dirty
	s.all, s.dirty = false, make(map[JobID]bool)
	s.mu.Unlock()
	err := s.reread(ctx, now, all, dirty)
	if err != nil { // not to be forgotten
		s.mu.Lock()
		s.all = true
		s.mu.Unlock()
	}
	return err
}

func (s *Scheduler) reread(ctx context.Context, now time.Time, all bool, dirty map[JobID]bool) error {
	if !all {
		for id := range dirty {
			if err := s.read(ctx, id, now); err != nil {
				return err
			}
		}
		return nil
	}
	jobs, err := s.store.Jobs(ctx)
	if err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	for id := range s.jobs {
		s.forget(id)
	}
	for _, j := range jobs {
		if err := s.keep(ctx, j, now); err != nil {
			return err
		}
	}
	return nil
}

// read reads one job anew.
func (s *Scheduler) read(ctx context.Context, id JobID, now time.Time) error {
	j, ok, err := s.store.Job(ctx, id)
	if err != nil {
		return fmt.Errorf("read job %s: %w", id, err)
	}
	if !ok {
		s.forget(id)
		return nil
	}
	return s.keep(ctx, j, now)
}

func (s *Scheduler) forget(id JobID) {
	p := s.jobs[id]
	if p == nil {
		return
	}
	delete(s.jobs, id)
	s.due.drop(p)
	if !p.job.State.RunningOccurrence.IsZero() {
		s.running--
	}
}

// keep takes j into the agenda, in the place of what was known of it.
func (s *Scheduler) keep(ctx context.Context, j Job, now time.Time) error {
	old := s.jobs[j.ID]
	s.forget(j.ID)
	if j.State.RecordedUntil.After(now) { // by a clock that was wrong
		var err error
		j, err = s.store.EditJob(ctx, j.ID, func(j *Job) error {
			if j.State.RecordedUntil.After(now) {
				j.State.RecordedUntil = now.UTC()
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	p := &plannedJob{job: j, at: -1}
	if old != nil && old.job.Schedule == j.Schedule {
		p.plan = old.plan
	} else if plan, err := j.Schedule.Plan(); err == nil {
		p.plan = plan
	} else {
		s.opts.Log.Error("a job has a schedule that cannot be read", zap.String("job", string(j.ID)), zap.Error(err))
	}
	s.jobs[j.ID] = p
	if !j.State.RunningOccurrence.IsZero() {
		s.running++
	}
	if j.Active() {
		p.next, _ = p.plan.Next(j.State.RecordedUntil)
	}
	if !j.State.ManualRunAt.IsZero() {
		p.next = j.State.ManualRunAt
		if p.next.After(now) { // at once
			p.next = now
		}
	}
	s.due.put(p)
	return nil
}

// An dueQueue holds jobs by when they are due, the first one first.
type dueQueue struct{ list dueList }

// put takes p in, unless it is in already or never due.
func (a *dueQueue) put(p *plannedJob) {
	if p.at < 0 && !p.next.IsZero() {
		heap.Push(&a.list, p)
	}
}

func (a *dueQueue) drop(p *plannedJob) {
	if p.at >= 0 {
		heap.Remove(&a.list, p.at)
	}
}

// next is when the first one is due; zero: never.
func (a *dueQueue) next() time.Time {
	if len(a.list) == 0 {
		return time.Time{}
	}
	return a.list[0].next
}

func (a *dueQueue) nextJob() JobID {
	if len(a.list) == 0 {
		return ""
	}
	return a.list[0].job.ID
}

func (a *dueQueue) ready(now time.Time) bool { return len(a.list) > 0 && !a.list[0].next.After(now) }

// pop takes the first one out if it is due, else it returns nil.
func (a *dueQueue) pop(now time.Time) *plannedJob {
	if !a.ready(now) {
		return nil
	}
	p, _ := heap.Pop(&a.list).(*plannedJob)
	return p
}

// dueList is the heap of an agenda.
type dueList []*plannedJob

func (d dueList) Len() int { return len(d) }

func (d dueList) Less(i, j int) bool {
	if !d[i].next.Equal(d[j].next) {
		return d[i].next.Before(d[j].next)
	}
	return d[i].job.ID < d[j].job.ID
}

func (d dueList) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

// Push is for container/heap.
func (d *dueList) Push(v any) {
	if p, ok := v.(*plannedJob); ok {
		p.at = len(*d)
		*d = append(*d, p)
	}
}

// Pop is for container/heap.
func (d *dueList) Pop() any {
	list := *d
	p := list[len(list)-1]
	p.at = -1
	*d = list[:len(list)-1]
	return p
}
