package schedule

import "time"

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
