package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A CatchUp says what becomes of slots that came while nothing ran.
type CatchUp string

// The ways to catch up.
const (
	CatchOnce CatchUp = "once" // the newest one runs for all of them
	CatchNone CatchUp = "none" // none runs
	CatchAll  CatchUp = "all"  // each runs, one after the other
)

// Options are the settings of a Scheduler. The zero value means the defaults.
type Options struct {
	CatchUp CatchUp       // CatchOnce
	Tick    time.Duration // how often the clock is asked at least; 15 s
	// Grace is by how much a slot may be late and still count as on time; 5 min.
	Grace time.Duration
	// Parallel is how many runs go on at once; 0: as many as are due. Others wait.
	Parallel int
	// Clock is the clock on the wall; nil: that of the machine.
	Clock func() time.Time
	// OnNotRun is told of slots that do not run, once that is recorded. It must not
	// wait. nil: nobody is told.
	OnNotRun func([]Occurrence)
	Log      *zap.Logger
}

// batch is how many slots are written in one transaction: few enough that what
// waits behind it does not wait long.
const batch = 10

// A Scheduler hands due slots to a Runner. There is one per store.
type Scheduler struct {
	opts   Options
	store  Store
	runner Runner
	wake   chan struct{}

	mu       sync.Mutex // guards what follows
	dirty    map[JobID]bool
	all      bool // every job is to be read again
	status   Status
	lastTick time.Time // when the last pass began, by both clocks

	// What follows is Run's own.
	jobs    map[JobID]*plannedJob
	due     dueQueue
	running int
	up      time.Time // what was due before it was due while nothing ran
	passed  time.Time // by the wall clock: when the last pass was
}

// Status is the state of a Scheduler.
type Status struct {
	Jobs    int `json:"jobs"` // that are neither paused nor completed
	Running int `json:"running"`
	Waiting int `json:"waiting"` // are due, and wait for others to end
	// Next is when the next slot comes, and NextJob whose it is.
	Next     time.Time `json:"next,omitzero"`
	NextJob  JobID     `json:"next_job,omitempty"`
	LastTick time.Time `json:"beat"` // when the clock was last asked
	// Stalled says that the clock was not asked for two ticks.
	Stalled bool   `json:"stalled,omitempty"`
	Error   string `json:"error,omitempty"` // why the last pass was not done
}

// NewScheduler returns a Scheduler, which does nothing until Run.
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
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Scheduler{
		opts: o, store: store, runner: runner, wake: make(chan struct{}, 1), all: true, dirty: make(map[JobID]bool),
		jobs: make(map[JobID]*plannedJob),
	}
}

// Wake says that jobs have changed, or that a run of theirs has ended; without
// ids that all are to be looked at anew. It never blocks.
func (s *Scheduler) Wake(ids ...JobID) {
	s.mu.Lock()
	s.all = s.all || len(ids) == 0
	for _, id := range ids {
		s.dirty[id] = true
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Status returns the state of s. It does not wait for a pass.
func (s *Scheduler) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.LastTick = s.lastTick.Round(0)
	st.Stalled = s.lastTick.IsZero() || time.Since(s.lastTick) > 2*s.opts.Tick
	return st
}

// Run hands out due slots until ctx ends. What cannot be written is tried again
// at the next tick.
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
		timer.Reset(s.once(ctx))
	}
}

// once makes a pass, and says how long nothing is due then.
func (s *Scheduler) once(ctx context.Context) time.Duration {
	s.mu.Lock()
	s.lastTick = time.Now()
	s.mu.Unlock()
	now := s.opts.Clock().Round(0)
	err := s.pass(ctx, now)
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Error("scheduled prompts wait", zap.Error(err))
	}
	s.tell(now, err)
	next := s.due.next()
	if err != nil || next.IsZero() || !next.After(now) { // what is due still waits for another to end
		return s.opts.Tick
	}
	return min(s.opts.Tick, max(next.Sub(s.opts.Clock().Round(0)), 0))
}

// tell keeps what Status says.
func (s *Scheduler) tell(now time.Time, err error) {
	st := Status{Running: s.running, Next: s.due.next(), NextJob: s.due.nextJob()}
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

// pass decides all that is due at now.
func (s *Scheduler) pass(ctx context.Context, now time.Time) error {
	switch gap := now.Sub(s.passed); {
	case s.passed.IsZero() || gap > s.opts.Grace: // nothing ran, or the clock jumped
		s.up = now
	case gap < 0: // what was decided ahead of now is to be looked at again
		s.up = now
		s.mu.Lock()
		s.all = true
		s.mu.Unlock()
	}
	if err := s.load(ctx, now); err != nil {
		return err
	}
	var held []*plannedJob // they wait for their own run to end
	defer func() {
		for _, p := range held {
			s.due.put(p)
		}
	}()
	for s.due.ready(now) && s.room() > 0 {
		waits, err := s.round(ctx, now)
		held = append(held, waits...)
		if err != nil {
			return err
		}
	}
	s.passed = now
	return nil
}

// room is how many runs may begin.
func (s *Scheduler) room() int {
	if s.opts.Parallel <= 0 {
		return batch
	}
	return s.opts.Parallel - s.running
}

// round decides what some jobs have due. It returns those of them that cannot go
// on before their run ends; the others are in the agenda again.
func (s *Scheduler) round(ctx context.Context, now time.Time) (held []*plannedJob, err error) {
	var taken, moved []*plannedJob
	var decided []Occurrence
	var runs []DueRun
	for len(taken) < batch && len(decided) < batch && len(runs) < s.room() {
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
	changed, err := s.write(ctx, decided, runs)
	if err != nil {
		return taken, err
	}
	for i, p := range moved {
		id := p.job.ID
		if err := s.read(ctx, id, now); err != nil {
			return append(held, moved[i:]...), err
		}
		if p := s.jobs[id]; p != nil && changed[id] { // the next pass tries again
			s.due.drop(p)
			held = append(held, p)
		}
	}
	return held, nil
}

// write records decided and begins runs. It returns the jobs that were not what
// they had been.
func (s *Scheduler) write(ctx context.Context, decided []Occurrence, runs []DueRun) (changed map[JobID]bool, err error) {
	if err := s.decide(ctx, decided); err != nil || len(runs) == 0 {
		return nil, err
	}
	fired, err := s.runner.Start(ctx, runs)
	if err == nil && len(fired) != len(runs) {
		err = fmt.Errorf("%d answers for %d runs", len(fired), len(runs))
	}
	if err != nil {
		return nil, fmt.Errorf("begin runs: %w", err)
	}
	changed = make(map[JobID]bool)
	var refused []Occurrence
	for i, f := range fired {
		switch f.Status {
		case NotAllowed:
			refused = append(refused, Occurrence{OccurrenceID: runs[i].Occurrence, State: Skipped, Reason: f.Reason, Manual: runs[i].Manual})
		case JobChanged:
			changed[runs[i].Job.ID] = true
		case Started, AlreadyRecorded:
		}
	}
	return changed, s.decide(ctx, refused)
}

func (s *Scheduler) decide(ctx context.Context, slots []Occurrence) error {
	if len(slots) == 0 {
		return nil
	}
	if err := s.store.RecordNotRun(ctx, slots); err != nil {
		return fmt.Errorf("record slots: %w", err)
	}
	if s.opts.OnNotRun != nil {
		s.opts.OnNotRun(slots)
	}
	for _, sl := range slots {
		s.opts.Log.Warn("a scheduled prompt does not run", zap.String("job", string(sl.Job)), zap.Time("slot", sl.DueAt),
			zap.String("state", string(sl.State)), zap.String("why", sl.Reason), zap.Int("slots", max(sl.Count, 1)))
	}
	return nil
}
