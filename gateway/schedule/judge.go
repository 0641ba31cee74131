package schedule

import "time"

// most is how many slots of a gap have records of their own. The older ones
// share one.
const most = 100

// The reasons for which slots do not run.
const (
	whyOverlap = "overlap: the run before still went on"
	whyNewer   = "late: a newer slot was due as well"
	whyDown    = "nothing ran then, or the clock jumped"
	whyMany    = "nothing ran then, or the clock jumped; too many slots to run them all"
)

// judge says which slots of p that are due at now are recorded and do not run,
// and which one runs. If it says neither, p waits for its run to end.
func (s *Scheduler) judge(p *planned, now time.Time) (decided []Slot, run *Firing) {
	j := p.job
	busy := !j.State.Running.IsZero()
	if !j.State.Asked.IsZero() {
		if busy {
			return nil, nil
		}
		return nil, &Firing{Job: j, Slot: SlotID{j.ID, j.State.Asked}, Asked: true}
	}
	d := p.dueAt(now)
	if d.sum != nil {
		d.sum.Why = whyDown
		if s.o.CatchUp == CatchAll {
			d.sum.Why = whyMany
		}
		decided = append(decided, *d.sum)
	}
	none := func(at time.Time, state SlotState, why string) {
		decided = append(decided, Slot{SlotID: SlotID{j.ID, at}, State: state, Why: why})
	}
	n := 0 // of what came while nothing ran
	for n < len(d.slots) && !d.slots[n].After(s.up) {
		n++
	}
	if n > 0 && s.o.CatchUp != CatchAll && now.Sub(d.slots[n-1]) <= s.o.Grace {
		n-- // it counts as on time
	}
	back, live := d.slots[:n], d.slots[n:]
	lapped := func(at time.Time) bool { // an end in times to come is of a clock that was wrong
		return busy || at.Before(j.State.Ended) && !j.State.Ended.After(now)
	}
	var next time.Time
	switch {
	case s.o.CatchUp == CatchAll && len(back) > 0:
		next, back, live = back[0], nil, nil // the others when it has ended
	case s.o.CatchUp == CatchOnce && len(back) > 0 && len(live) == 0:
		next, back = back[len(back)-1], back[:len(back)-1]
	}
	for _, at := range back {
		none(at, Missed, whyDown)
	}
	for i, at := range live {
		switch {
		case lapped(at):
			none(at, Skipped, whyOverlap)
		case i < len(live)-1 && !at.After(s.up):
			none(at, Missed, whyDown)
		case i < len(live)-1:
			none(at, Skipped, whyNewer)
		default:
			next = at
		}
	}
	if !next.IsZero() && !busy {
		run = &Firing{Job: j, Slot: SlotID{j.ID, next}}
	}
	return decided, run
}

// dueSlots are the slots of a job that are due: the newest ones, and one record
// for all that came before them.
type dueSlots struct {
	slots []time.Time
	sum   *Slot
}

func (p *planned) dueAt(now time.Time) dueSlots {
	var d dueSlots
	var first, last time.Time
	older := 0
	for at := p.job.State.Decided; ; {
		next, ok := p.plan.Next(at)
		if !ok || next.After(now) {
			break
		}
		d.slots = append(d.slots, next)
		if len(d.slots) == 2*most { // half of them are too old
			if first.IsZero() {
				first = d.slots[0]
			}
			last, older = d.slots[most-1], older+most
			d.slots = append(d.slots[:0], d.slots[most:]...)
		}
		at = next
	}
	if n := len(d.slots) - most; n > 0 {
		if first.IsZero() {
			first = d.slots[0]
		}
		last, older = d.slots[n-1], older+n
		d.slots = d.slots[n:]
	}
	if older > 0 {
		d.sum = &Slot{SlotID: SlotID{p.job.ID, last}, State: Missed, Since: first, Count: older}
	}
	return d
}
