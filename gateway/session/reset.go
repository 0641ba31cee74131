package session

import (
	"time"

	"hermesd/gateway/i18n"
)

// A ResetPolicy says when a conversation starts over by itself. The zero Reset is
// never. Nothing is deleted by it.
type ResetPolicy struct {
	Idle  time.Duration // without a message; 0: never
	Daily bool
	Hour  int // of the day at which a new one begins, if Daily
	// Zone is where the hour is; nil: that of the machine.
	Zone *time.Location
}

// Due reports whether a session that was last used at last is over at now, and
// says why in the words of p.
func (r ResetPolicy) Due(p i18n.Printer, last, now time.Time) (why string, due bool) {
	if last.IsZero() {
		return "", false
	}
	if r.Idle > 0 && now.Sub(last) >= r.Idle {
		return p.T("nothing was said for %s", span(p, now.Sub(last))), true
	}
	if r.Daily && last.Before(r.boundary(now)) {
		return p.T("a new day has begun at %d:00", r.Hour), true
	}
	return "", false
}

// boundary is the latest beginning of a day at or before now.
func (r ResetPolicy) boundary(now time.Time) time.Time {
	zone := r.Zone
	if zone == nil {
		zone = time.Local
	}
	n := now.In(zone)
	b := time.Date(n.Year(), n.Month(), n.Day(), r.Hour, 0, 0, 0, zone)
	if b.After(now) {
		b = time.Date(n.Year(), n.Month(), n.Day()-1, r.Hour, 0, 0, 0, zone)
	}
	return b
}

func span(p i18n.Printer, d time.Duration) string {
	if d < 2*time.Hour {
		return p.T("%d minutes", int(d.Minutes()))
	}
	if d < 48*time.Hour {
		return p.T("%d hours", int(d.Hours()))
	}
	return p.T("%d days", int(d.Hours()/24))
}
