package schedule

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// A plannedJob is a job with its plan, as held in memory by the Scheduler.
type plannedJob struct {
	job       Job
	plan      Plan
	next      time.Time // next due time; zero: never
	heapIndex int       // index in the due queue; -1: not queued
}

// load reloads the jobs that have changed since the last call.
func (s *Scheduler) load(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	all, dirty := s.reloadAll, s.dirty
	s.reloadAll, s.dirty = false, make(map[JobID]bool)
	s.mu.Unlock()
	err := s.reload(ctx, now, all, dirty)
	if err != nil { // the set of changed jobs is lost, so reload all of them
		s.mu.Lock()
		s.reloadAll = true
		s.mu.Unlock()
	}
	return err
}

func (s *Scheduler) reload(ctx context.Context, now time.Time, all bool, dirty map[JobID]bool) error {
	if !all {
		for id := range dirty {
			if err := s.reloadJob(ctx, id, now); err != nil {
				return err
			}
		}
		return nil
	}
	jobs, err := s.store.Jobs(ctx)
	if err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	for id := range s.jobs {
		s.untrack(id)
	}
	for _, j := range jobs {
		if err := s.track(ctx, j, now); err != nil {
			return err
		}
	}
	return nil
}

// reloadJob reads one job from the store again.
func (s *Scheduler) reloadJob(ctx context.Context, id JobID, now time.Time) error {
	j, ok, err := s.store.Job(ctx, id)
	if err != nil {
		return fmt.Errorf("read job %s: %w", id, err)
	}
	if !ok || !j.Removed.IsZero() {
		s.untrack(id)
		return nil
	}
	return s.track(ctx, j, now)
}

func (s *Scheduler) untrack(id JobID) {
	p := s.jobs[id]
	if p == nil {
		return
	}
	delete(s.jobs, id)
	s.due.remove(p)
	if !p.job.State.RunningOccurrence.IsZero() {
		s.running--
	}
}

// track puts j into the due queue and replaces an earlier version of it.
func (s *Scheduler) track(ctx context.Context, j Job, now time.Time) error {
	old := s.jobs[j.ID]
	s.untrack(j.ID)
	if j.State.RecordedUntil.After(now) { // recorded while the clock was wrong
		var err error
		j, err = s.store.EditJob(ctx, j.ID, func(j *Job) error {
			if j.State.RecordedUntil.After(now) {
				j.State.RecordedUntil = now.UTC()
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reset recorded time of job %s: %w", j.ID, err)
		}
	}
	p := &plannedJob{job: j, heapIndex: -1}
	if old != nil && old.job.Schedule == j.Schedule {
		p.plan = old.plan
	} else if plan, err := j.Schedule.Plan(); err == nil {
		p.plan = plan
	} else {
		s.opts.Log.Error("cannot parse schedule of job", zap.String("job", string(j.ID)), zap.Error(err))
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
		if p.next.After(now) { // run immediately
			p.next = now
		}
	}
	s.due.put(p)
	return nil
}

// A dueQueue orders jobs by due time, the earliest first.
type dueQueue struct{ list dueList }

// put adds p unless it is queued already or never due.
func (a *dueQueue) put(p *plannedJob) {
	if p.heapIndex < 0 && !p.next.IsZero() {
		heap.Push(&a.list, p)
	}
}

func (a *dueQueue) remove(p *plannedJob) {
	if p.heapIndex >= 0 {
		heap.Remove(&a.list, p.heapIndex)
	}
}

// nextAt returns the due time of the first job; zero: the queue is empty.
func (a *dueQueue) nextAt() time.Time {
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

func (a *dueQueue) hasDue(now time.Time) bool { return len(a.list) > 0 && !a.list[0].next.After(now) }

// pop removes and returns the first job if it is due, else it returns nil.
func (a *dueQueue) pop(now time.Time) *plannedJob {
	if !a.hasDue(now) {
		return nil
	}
	p, _ := heap.Pop(&a.list).(*plannedJob)
	return p
}

// dueList implements heap.Interface for a dueQueue.
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
	d[i].heapIndex, d[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (d *dueList) Push(v any) {
	if p, ok := v.(*plannedJob); ok {
		p.heapIndex = len(*d)
		*d = append(*d, p)
	}
}

// Pop implements heap.Interface.
func (d *dueList) Pop() any {
	list := *d
	p := list[len(list)-1]
	p.heapIndex = -1
	*d = list[:len(list)-1]
	return p
}
