package schedule

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A CatchUp determines which occurrences run that were due while the daemon was down.
type CatchUp string

// The catch-up modes.
const (
	CatchOnce CatchUp = "once" // only the newest one runs
	CatchNone CatchUp = "none" // none runs
	CatchAll  CatchUp = "all"  // all run, one after the other
)

// Options configures a Scheduler. Zero fields mean the defaults.
type Options struct {
	CatchUp CatchUp       // default CatchOnce
	Tick    time.Duration // longest time between two looks at the clock while there are jobs; default 15 s
	// Grace is how late an occurrence still counts as on time; default 5 min.
	Grace time.Duration
	// Parallel is the maximum number of concurrent runs; 0: no limit. Further ones
	// wait.
	Parallel int
	// Clock returns the wall-clock time; default time.Now.
	Clock func() time.Time
	// OnNotRun is called with occurrences that do not run, after they were recorded. It
	// must not block. It is required, as is Log.
	OnNotRun func([]Occurrence)
	Log      *zap.Logger
}

// maxBatch is the number of occurrences written in one transaction. It is small so
// that other writers do not wait long.
const maxBatch = 10

// A Scheduler passes due occurrences to a Runner. There is one per store. Run does the
// work in one goroutine; Wake and Status may be called from any goroutine.
type Scheduler struct {
	opts   Options
	store  Store
	runner Runner
	wake   chan struct{}

	mu        sync.Mutex // guards the next group
	dirty     map[JobID]bool
	reloadAll bool // reload every job, not only dirty
	status    Status
	lastTick  time.Time // when the last tick began, with monotonic reading
	isIdle    bool      // there are no jobs: the next tick is when Wake is called

	// Used by the goroutine of Run only.
	jobs     map[JobID]*plannedJob
	due      dueQueue
	running  int
	upSince  time.Time // occurrences due before it were due while nothing ran
	lastPass time.Time // wall-clock time of the last complete tick
}

// Status describes the state of a Scheduler.
type Status struct {
	Jobs    int `json:"jobs"` // neither paused nor completed
	Running int `json:"running"`
	Waiting int `json:"waiting"` // due, but waiting for runs to end
	// Next is the next due time, NextJob the job that is due then.
	Next     time.Time `json:"next,omitzero"`
	NextJob  JobID     `json:"next_job,omitempty"`
	LastTick time.Time `json:"last_tick"` // when the clock was last read
	// Stalled: the clock was not read for two ticks although there are jobs.
	Stalled bool   `json:"stalled,omitempty"`
	Error   string `json:"error,omitempty"` // error of the last tick
}

// NewScheduler returns a Scheduler that does nothing until Run is called.
func NewScheduler(store Store, runner Runner, o Options) *Scheduler {
	if o.CatchUp == "" {
		o.CatchUp = CatchOnce
	}
	if o.Tick <= 0 {
		o.Tick = 15 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Minute
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Scheduler{
		opts: o, store: store, runner: runner, wake: make(chan struct{}, 1), reloadAll: true, dirty: make(map[JobID]bool),
		jobs: make(map[JobID]*plannedJob),
	}
}

// Wake reports that jobs have changed or that their runs have ended. Without IDs all
// jobs are reloaded. It never blocks.
func (s *Scheduler) Wake(ids ...JobID) {
	s.mu.Lock()
	s.reloadAll = s.reloadAll || len(ids) == 0
	for _, id := range ids {
		s.dirty[id] = true
	}
	if s.isIdle { // a tick is expected from now on
		s.isIdle, s.lastTick = false, time.Now()
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Status returns the state of s after the last tick. It does not wait for a tick.
func (s *Scheduler) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.LastTick = s.lastTick.Round(0)
	st.Stalled = s.lastTick.IsZero() || !s.isIdle && time.Since(s.lastTick) > 2*s.opts.Tick
	return st
}

// Run starts due runs until ctx ends. Failed writes are retried at the next tick.
func (s *Scheduler) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		timer.Reset(s.tick(ctx))
	}
}

// tick processes everything that is due, and returns the time until the next tick.
func (s *Scheduler) tick(ctx context.Context) time.Duration {
	s.mu.Lock()
	s.lastTick, s.isIdle = time.Now(), false
	s.mu.Unlock()
	now := s.opts.Clock().Round(0)
	err := s.processDue(ctx, now)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Error("cannot process due jobs", zap.Error(err))
	}
	s.updateStatus(now, err)
	if err == nil && len(s.jobs) == 0 {
		return s.waitForJobs()
	}
	next := s.due.nextAt()
	if err != nil || next.IsZero() || !next.After(now) { // due jobs wait for runs to end
		return s.opts.Tick
	}
	return min(s.opts.Tick, max(next.Sub(s.opts.Clock().Round(0)), 0))
}

// waitForJobs returns the time until the next tick of a Scheduler without jobs: ticks
// would only wake an idle process.
func (s *Scheduler) waitForJobs() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reloadAll || len(s.dirty) > 0 { // Wake was called meanwhile
		return s.opts.Tick
	}
	s.isIdle = true
	return math.MaxInt64
}

// updateStatus stores the result of Status.
func (s *Scheduler) updateStatus(now time.Time, err error) {
	st := Status{Running: s.running, Next: s.due.nextAt(), NextJob: s.due.nextJob()}
	for _, p := range s.jobs {
		if p.job.Active() {
			st.Jobs++
		}
		if !p.next.IsZero() && !p.next.After(now) {
			st.Waiting++
		}
	}
	if err != nil {
		st.Error = err.Error()
	}
	s.mu.Lock()
	s.status = st
	s.mu.Unlock()
}

// processDue decides all occurrences that are due at now.
func (s *Scheduler) processDue(ctx context.Context, now time.Time) error {
	switch gap := now.Sub(s.lastPass); {
	case s.lastPass.IsZero() || gap > s.opts.Grace: // nothing ran, or the clock jumped
		s.upSince = now
	case gap < 0: // the clock was set back; reload to reset RecordedUntil
		s.upSince = now
		s.mu.Lock()
		s.reloadAll = true
		s.mu.Unlock()
	}
	if err := s.load(ctx, now); err != nil {
		return err
	}
	var held []*plannedJob // jobs waiting for their own run to end
	defer func() {
		for _, p := range held {
			s.due.put(p)
		}
	}()
	for s.due.hasDue(now) && s.capacity() > 0 {
		waits, err := s.processBatch(ctx, now)
		held = append(held, waits...)
		if err != nil {
			return err
		}
	}
	s.lastPass = now
	return nil
}

// capacity returns the number of runs that may start.
func (s *Scheduler) capacity() int {
	if s.opts.Parallel <= 0 {
		return maxBatch
	}
	return s.opts.Parallel - s.running
}

// processBatch decides the due occurrences of some jobs. It returns the jobs that must
// wait for their run to end; the others are back in the due queue.
func (s *Scheduler) processBatch(ctx context.Context, now time.Time) (held []*plannedJob, err error) {
	var taken, moved []*plannedJob
	var decided []Occurrence
	var runs []DueRun
	for len(taken) < maxBatch && len(decided) < maxBatch && len(runs) < s.capacity() {
		p := s.due.pop(now)
		if p == nil {
			break
		}
		taken = append(taken, p)
		none, run := s.evaluate(p, now)
		decided = append(decided, none...)
		if run != nil {
			runs = append(runs, *run)
		}
		if run != nil || len(none) > 0 {
			moved = append(moved, p)
		} else {
			held = append(held, p)
		}
	}
	changed, err := s.recordAndStart(ctx, decided, runs)
	if err != nil {
		return taken, err
	}
	for i, p := range moved {
		id := p.job.ID
		if err := s.reloadJob(ctx, id, now); err != nil {
			return append(held, moved[i:]...), err
		}
		if p := s.jobs[id]; p != nil && changed[id] { // retried at the next tick
			s.due.remove(p)
			held = append(held, p)
		}
	}
	return held, nil
}

// recordAndStart records decided and starts runs. It returns the jobs that have changed
// in the meantime, whose runs were not started.
func (s *Scheduler) recordAndStart(ctx context.Context, decided []Occurrence, runs []DueRun) (changed map[JobID]bool, err error) {
	if err := s.recordNotRun(ctx, decided); err != nil || len(runs) == 0 {
		return nil, err
	}
	results, err := s.runner.Start(ctx, runs)
	if err == nil && len(results) != len(runs) {
		err = fmt.Errorf("got %d results for %d runs", len(results), len(runs))
	}
	if err != nil {
		return nil, fmt.Errorf("start runs: %w", err)
	}
	changed = make(map[JobID]bool)
	var notAllowed []Occurrence
	for i, r := range results {
		switch r.Status {
		case NotAllowed:
			notAllowed = append(notAllowed, Occurrence{OccurrenceID: runs[i].Occurrence, State: Skipped, Reason: r.Reason, Manual: runs[i].Manual})
		case JobChanged:
			changed[runs[i].Job.ID] = true
		case Started, AlreadyRecorded:
		}
	}
	return changed, s.recordNotRun(ctx, notAllowed)
}

func (s *Scheduler) recordNotRun(ctx context.Context, list []Occurrence) error {
	if len(list) == 0 {
		return nil
	}
	if err := s.store.RecordNotRun(ctx, list); err != nil {
		return fmt.Errorf("record occurrences: %w", err)
	}
	s.opts.OnNotRun(list)
	for _, o := range list {
		s.opts.Log.Warn("occurrence does not run", zap.String("job", string(o.Job)), zap.Time("due_at", o.DueAt),
			zap.String("state", string(o.State)), zap.String("reason", o.Reason), zap.Int("count", max(o.Count, 1)))
	}
	return nil
}

// maxGapRecords is the number of occurrences of a gap that get a record each. Older
// ones share one record.
const maxGapRecords = 100

// The reasons why an occurrence does not run. They are stored.
const (
	reasonOverlap = "overlap: the run before still went on"
	reasonNewer   = "late: a newer slot was due as well"
	reasonDown    = "nothing ran then, or the clock jumped"
	reasonTooMany = "nothing ran then, or the clock jumped; too many slots to run them all"
)

// evaluate decides the occurrences of p that are due at now: which ones are recorded
// without a run, and which one runs. If it returns neither, p waits for its current
// run to end.
func (s *Scheduler) evaluate(p *plannedJob, now time.Time) (decided []Occurrence, run *DueRun) {
	j := p.job
	busy := !j.State.RunningOccurrence.IsZero()
	if !j.State.ManualRunAt.IsZero() {
		if busy {
			return nil, nil
		}
		return nil, &DueRun{Job: j, Occurrence: OccurrenceID{j.ID, j.State.ManualRunAt}, Manual: true}
	}
	d := p.findDue(now)
	if d.gap != nil {
		d.gap.Reason = reasonDown
		if s.opts.CatchUp == CatchAll {
			d.gap.Reason = reasonTooMany
		}
		decided = append(decided, *d.gap)
	}
	record := func(at time.Time, state OccurrenceState, reason string) {
		decided = append(decided, Occurrence{OccurrenceID: OccurrenceID{j.ID, at}, State: state, Reason: reason})
	}
	n := 0 // number of occurrences that were due while nothing ran
	for n < len(d.times) && !d.times[n].After(s.upSince) {
		n++
	}
	if n > 0 && s.opts.CatchUp != CatchAll && now.Sub(d.times[n-1]) <= s.opts.Grace {
		n-- // within Grace: counts as on time
	}
	missed, live := d.times[:n], d.times[n:]
	overlaps := func(at time.Time) bool { // an Ended in the future was set by a wrong clock
		return busy || at.Before(j.State.Ended) && !j.State.Ended.After(now)
	}
	var next time.Time
	switch {
	case s.opts.CatchUp == CatchAll && len(missed) > 0:
		next, missed, live = missed[0], nil, nil // the others follow when this run has ended
	case s.opts.CatchUp == CatchOnce && len(missed) > 0 && len(live) == 0:
		next, missed = missed[len(missed)-1], missed[:len(missed)-1]
	}
	for _, at := range missed {
		record(at, Missed, reasonDown)
	}
	for i, at := range live {
		switch {
		case overlaps(at):
			record(at, Skipped, reasonOverlap)
		case i < len(live)-1 && !at.After(s.upSince):
			record(at, Missed, reasonDown)
		case i < len(live)-1:
			record(at, Skipped, reasonNewer)
		default:
			next = at
		}
	}
	if !next.IsZero() && !busy {
		run = &DueRun{Job: j, Occurrence: OccurrenceID{j.ID, next}}
	}
	return decided, run
}

// dueOccurrences holds the due times of a job: the newest ones, and one record for
// all earlier ones.
type dueOccurrences struct {
	times []time.Time
	gap   *Occurrence
}

func (p *plannedJob) findDue(now time.Time) dueOccurrences {
	var d dueOccurrences
	var first, last time.Time
	older := 0
	for at := p.job.State.RecordedUntil; ; {
		next, ok := p.plan.Next(at)
		if !ok || next.After(now) {
			break
		}
		d.times = append(d.times, next)
		if len(d.times) == 2*maxGapRecords { // fold the older half into the gap record
			if first.IsZero() {
				first = d.times[0]
			}
			last, older = d.times[maxGapRecords-1], older+maxGapRecords
			d.times = append(d.times[:0], d.times[maxGapRecords:]...)
		}
		at = next
	}
	if n := len(d.times) - maxGapRecords; n > 0 {
		if first.IsZero() {
			first = d.times[0]
		}
		last, older = d.times[n-1], older+n
		d.times = d.times[n:]
	}
	if older > 0 {
		d.gap = &Occurrence{OccurrenceID: OccurrenceID{p.job.ID, last}, State: Missed, Since: first, Count: older}
	}
	return d
}
