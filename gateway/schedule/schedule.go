// Package schedule decides when stored prompts (jobs) are due and records every
// instant at which one was. A Manager creates and changes jobs; a Scheduler passes
// due occurrences to a Runner. Both may be used from any goroutine. The package
// runs no agent turn: the Runner is the gateway, and a Store keeps all state.
//
// # Occurrences
//
// An occurrence is one instant at which one job is due. It is a record and not a
// timer:
//
//	                  ┌─► running(entry) ─► ran(ok | failed)
//	occurrence due ───┼─► skipped(reason)   the previous run was still running, ...
//	                  └─► missed(reason)    the daemon was down
//
// There is at most one record per job and instant. Running is written in the
// transaction that accepts the run's entry into the inbox, ran in the transaction
// that ends the entry. The process can therefore be killed at any point: the next
// process decides an occurrence without a record and continues the entry of a
// running one, and no occurrence runs twice.
//
// # Clocks
//
// The Scheduler compares the wall clock with the due times at every tick and trusts
// no timer for longer than a tick. If the clock jumps forward, the occurrences in
// between are treated as if the daemon had been down; if it jumps back, those that
// have a record do not run again.
//
// A job's schedule always yields the same instants. On days on which a zone changes
// its clock, a wall time that does not exist is due at the first instant after it,
// and one that exists twice is due once, the first time.
//
// # Changes to jobs
//
// All changes go through the Manager: the tool, the command line and the chat
// command use it.
package schedule

import (
	"time"

	"github.com/robfig/cron/v3"

	"hermesd/gateway/i18n"
)

// A Kind determines how the instants of a Schedule are computed.
type Kind string

// The kinds of schedule.
const (
	Once     Kind = "once"     // at one instant
	Interval Kind = "interval" // at a fixed distance, counted from an instant
	Cron     Kind = "cron"     // by the wall clock of a zone
)

// A Schedule defines when a job is due. It is created by Parse. It does not depend on
// the time at which it was parsed, so it always yields the same instants.
type Schedule struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // as written by the user
	// At is the instant of Once, and the instant from which Interval counts.
	At time.Time `json:"at,omitzero"`
	// Every is the distance of Interval.
	Every time.Duration `json:"every,omitempty"`
	// Expr is the normalized expression of Cron: five fields with numbers only.
	Expr string `json:"expr,omitempty"`
	// Zone is the IANA name of the wall clock's zone, or a UTC offset such as
	// "UTC+02:00". Jobs of older versions may have "Local", the zone of the host.
	Zone string `json:"zone,omitempty"`
}

// A Plan computes the instants of a Schedule. It is safe for concurrent use.
type Plan struct {
	schedule Schedule
	spec     *cron.SpecSchedule // for Cron; in UTC, because it works on wall-clock times
	loc      *time.Location
}

// Plan returns the Plan of s. The error says, for the user, what is wrong with s.
func (s Schedule) Plan() (Plan, error) {
	p := Plan{schedule: s, loc: time.UTC}
	loc, noZone := loadZone(s.Zone)
	if noZone == nil {
		p.loc = loc
	}
	switch s.Kind {
	case Once:
		if s.At.IsZero() {
			return p, i18n.Errorf("the schedule %q has no time", s.Text)
		}
		return p, nil
	case Interval:
		if s.At.IsZero() || s.Every < MinInterval || s.Every > MaxInterval {
			return p, i18n.Errorf("the interval %s is not between %s and %s", s.Every, durationText(MinInterval), durationText(MaxInterval))
		}
		return p, nil
	case Cron:
	default:
		return p, i18n.Errorf("there is no kind of schedule %q", s.Kind)
	}
	if noZone != nil {
		return p, noZone
	}
	var err error
	p.spec, err = parseFields(s.Expr)
	return p, err
}

// Location returns the zone in which times of the schedule are shown.
func (p Plan) Location() *time.Location { return p.loc }

// Next returns the first instant after t at which the schedule is due; ok is
// false if there is none.
//
// On days on which a zone changes its clock, a wall time that does not exist is due at
// the first instant after it, and one that exists twice is due the first time only.
// Intervals do not depend on the wall clock.
func (p Plan) Next(t time.Time) (next time.Time, ok bool) {
	switch p.schedule.Kind {
	case Once:
		return p.schedule.At, p.schedule.At.After(t)
	case Interval:
		n := int64(0)
		if elapsed := t.Sub(p.schedule.At); elapsed >= 0 {
			n = int64(elapsed / p.schedule.Every)
		}
		next = p.schedule.At.Add(time.Duration(n+1) * p.schedule.Every)
		return next, next.After(t) // false if the time overflows
	case Cron:
		return p.nextCron(t)
	}
	return time.Time{}, false
}

// Upcoming returns the next n instants after t in the zone of the schedule, fewer if
// there are not as many.
func (p Plan) Upcoming(t time.Time, n int) []time.Time {
	var times []time.Time
	for len(times) < n {
		next, ok := p.Next(t)
		if !ok {
			break
		}
		times = append(times, next.In(p.loc))
		t = next
	}
	return times
}

func (p Plan) nextCron(t time.Time) (time.Time, bool) {
	w := maxWallClock(t, p.loc)
	found := p.spec.Next(w)
	if found.IsZero() { // the library searches five years; a 29 February can be eight years away
		found = p.spec.Next(w.AddDate(5, 0, 0))
	}
	if found.IsZero() {
		return time.Time{}, false
	}
	return firstInstantAt(found, p.loc), true
}

// wallClock returns the time that the clock of a zone shows at t, as a time.Time in
// UTC.
func wallClock(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// zoneChangeSpan is the largest distance of two changes of a zone that affect the same
// wall time: no zone changes its clock by more than 26 hours.
const zoneChangeSpan = 36 * time.Hour

// maxWallClock returns the latest time that the wall clock has shown up to t. It is
// later than the time shown at t if the clock was set back shortly before.
func maxWallClock(t time.Time, loc *time.Location) time.Time {
	latest := wallClock(t, loc)
	for at := t; ; {
		start, _ := at.In(loc).ZoneBounds()
		if start.IsZero() || t.Sub(start) > zoneChangeSpan {
			return latest
		}
		at = start.Add(-1)
		if w := wallClock(at, loc); w.After(latest) {
			latest = w
		}
	}
}

// firstInstantAt returns the first instant at which the wall clock shows w or a later
// time.
func firstInstantAt(w time.Time, loc *time.Location) time.Time {
	for at := w.Add(-zoneChangeSpan); ; {
		start, end := at.In(loc).ZoneBounds()
		_, offset := at.In(loc).Zone()
		t := w.Add(-time.Duration(offset) * time.Second)
		if t.Before(start) {
			t = start
		}
		if end.IsZero() || t.Before(end) {
			return t.UTC()
		}
		at = end
	}
}

// loadZone returns the zone with the given IANA name or UTC offset; "" is UTC.
func loadZone(name string) (*time.Location, error) {
	if t, err := time.Parse("UTC-07:00", name); err == nil {
		_, offset := t.Zone()
		return time.FixedZone(name, offset), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, i18n.Errorf("there is no time zone %q; want a name such as Europe/Berlin or UTC", name)
	}
	return loc, nil
}
