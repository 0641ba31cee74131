package schedule

import "time"

// maxGapRecords is how many slots of a gap have records of their own. The older ones
// share one.
const maxGapRecords = 100

// The reasons for which slots do not run.
const (
	reasonOverlap = "overlap: the run before still went on"
	reasonNewer   = "late: a newer slot was due as well"
	reasonDown    = "nothing ran then, or the clock jumped"
	reasonTooMany = "nothing ran then, or the clock jumped; too many slots to run them all"
)

// evaluate says which slots of p that are due at now are recorded and do not run,
// and which one runs. If it says neither, p waits for its run to end.
func (s *Scheduler) evaluate(p *plannedJob, now time.Time) (decided []Occurrence, run *DueRun) {
	j := p.job
	busy := !j.State.RunningOccurrence.IsZero()
	if !j.State.ManualRunAt.IsZero() {
		if busy {
			return nil, nil
		}
		return nil, &DueRun{Job: j, Occurrence: OccurrenceID{j.ID, j.State.ManualRunAt}, Manual: true}
	}
	d := p.dueAt(now)
	if d.sum != nil {
		d.sum.Reason = reasonDown
		if s.opts.CatchUp == CatchAll {
			d.sum.Reason = reasonTooMany
		}
		decided = append(decided, *d.sum)
	}
	none := func(at time.Time, state OccurrenceState, why string) {
		decided = append(decided, Occurrence{OccurrenceID: OccurrenceID{j.ID, at}, State: state, Reason: why})
	}
	n := 0 // of what came while nothing ran
	for n < len(d.slots) && !d.slots[n].After(s.up) {
		n++
	}
	if n > 0 && s.opts.CatchUp != CatchAll && now.Sub(d.slots[n-1]) <= s.opts.Grace {
		n-- // it counts as on time
	}
	back, live := d.slots[:n], d.slots[n:]
	lapped := func(at time.Time) bool { // an end in times to come is of a clock that was wrong
		return busy || at.Before(j.State.Ended) && !j.State.Ended.After(now)
	}
	var next time.Time
	switch {
	case s.opts.CatchUp == CatchAll && len(back) > 0:
		next, back, live = back[0], nil, nil // the others when it has ended
	case s.opts.CatchUp == CatchOnce && len(back) > 0 && len(live) == 0:
		next, back = back[len(back)-1], back[:len(back)-1]
	}
	for _, at := range back {
		none(at, Missed, reasonDown)
	}
	for i, at := range live {
		switch {
		case lapped(at):
			none(at, Skipped, reasonOverlap)
		case i < len(live)-1 && !at.After(s.up):
			none(at, Missed, reasonDown)
		case i < len(live)-1:
			none(at, Skipped, reasonNewer)
		default:
			next = at
		}
	}
	if !next.IsZero() && !busy {
		run = &DueRun{Job: j, Occurrence: OccurrenceID{j.ID, next}}
	}
	return decided, run
}

// dueSlots are the slots of a job that are due: the newest ones, and one record
// for all that came before them.
type dueSlots struct {
	slots []time.Time
	sum   *Occurrence
}

func (p *plannedJob) dueAt(now time.Time) dueSlots {
	var d dueSlots
	var first, last time.Time
	older := 0
	for at := p.job.State.RecordedUntil; ; {
		next, ok := p.plan.Next(at)
		if !ok || next.After(now) {
			break
		}
		d.slots = append(d.slots, next)
		if len(d.slots) == 2*maxGapRecords { // half of them are too old
			if first.IsZero() {
				first = d.slots[0]
			}
			last, older = d.slots[maxGapRecords-1], older+maxGapRecords
			d.slots = append(d.slots[:0], d.slots[maxGapRecords:]...)
		}
		at = next
	}
	if n := len(d.slots) - maxGapRecords; n > 0 {
		if first.IsZero() {
			first = d.slots[0]
		}
		last, older = d.slots[n-1], older+n
		d.slots = d.slots[n:]
	}
	if older > 0 {
		d.sum = &Occurrence{OccurrenceID: OccurrenceID{p.job.ID, last}, State: Missed, Since: first, Count: older}
	}
	return d
}
