package schedule

import (
	"time"

	"github.com/robfig/cron/v3"

	"hermesd/gateway/i18n"
)

// A Kind says how the instants of a Schedule are found.
type Kind string

// The kinds of schedule.
const (
	Once     Kind = "once"     // at one instant
	Interval Kind = "interval" // every so often, counted from an instant
	Cron     Kind = "cron"     // by the clock on a wall
)

// A Schedule says when a job is due. Parse makes one. It holds instants and not
// what it was parsed at, so the same Schedule yields the same instants for ever.
type Schedule struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // as a person wrote it
	// At is the instant of Once, and the instant from which Interval counts.
	At    time.Time     `json:"at,omitzero"`
	Every time.Duration `json:"every,omitempty"`
	// Expr is five cron fields with numbers only.
	Expr string `json:"expr,omitempty"`
	// Zone is the IANA name of the zone of the wall clock, or "Local".
	Zone string `json:"zone,omitempty"`
}

// A Plan is a Schedule that is ready to be asked. It is safe for concurrent use.
type Plan struct {
	s    Schedule
	spec *cron.SpecSchedule // of Cron, in UTC: it sees wall clocks
	loc  *time.Location
}

// Plan makes s ready. Its error says what is wrong with s.
func (s Schedule) Plan() (Plan, error) {
	p := Plan{s: s, loc: time.UTC}
	loc, noZone := zone(s.Zone)
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
			return p, i18n.Errorf("the interval %s is not between %s and %s", s.Every, length(MinInterval), length(MaxInterval))
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

// Location is the zone in which times of the schedule are shown.
func (p Plan) Location() *time.Location { return p.loc }

// Next returns the first instant after t at which the schedule is due; ok is
// false if there is none.
//
// On the days on which a zone changes its clock a wall time that does not exist
// is due at the first instant after it that does, and one that exists twice is
// due the first time only. Intervals do not look at clocks on walls.
func (p Plan) Next(t time.Time) (next time.Time, ok bool) {
	switch p.s.Kind {
	case Once:
		return p.s.At, p.s.At.After(t)
	case Interval:
		n := int64(0)
		if gone := t.Sub(p.s.At); gone >= 0 {
			n = int64(gone / p.s.Every)
		}
		next = p.s.At.Add(time.Duration(n+1) * p.s.Every)
		return next, next.After(t) // not so if the years overflow
	case Cron:
		return p.nextWall(t)
	}
	return time.Time{}, false
}

// Upcoming returns the next n instants after t, fewer if there are no more.
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

func (p Plan) nextWall(t time.Time) (time.Time, bool) {
	w := furthest(t, p.loc)
	found := p.spec.Next(w)
	if found.IsZero() { // five years without one; a 29th of February can take eight
		found = p.spec.Next(w.AddDate(5, 0, 0))
	}
	if found.IsZero() {
		return time.Time{}, false
	}
	return arrival(found, p.loc), true
}

// A wall clock is held in a time.Time of UTC: wall is what the clock of a zone
// shows at t.
func wall(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// zoneChangeSpan is how far apart two changes of a zone can be and still concern the
// same wall time: no clock is put by more than a day and two hours.
const zoneChangeSpan = 36 * time.Hour

// furthest returns the latest that the wall clock has shown up to t: more than
// it shows now if it was put back shortly before.
func furthest(t time.Time, loc *time.Location) time.Time {
	most := wall(t, loc)
	for at := t; ; {
		start, _ := at.In(loc).ZoneBounds()
		if start.IsZero() || t.Sub(start) > zoneChangeSpan {
			return most
		}
		at = start.Add(-1)
		if w := wall(at, loc); w.After(most) {
			most = w
		}
	}
}

// arrival returns the first instant at which the wall clock shows w or more.
func arrival(w time.Time, loc *time.Location) time.Time {
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

// zone returns the zone called name; "" is UTC.
func zone(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, i18n.Errorf("there is no time zone %q; want a name such as Europe/Berlin or UTC", name)
	}
	return loc, nil
}
