package session

import (
	"time"

	"hermesd/gateway/i18n"
)

// A ResetPolicy determines when a conversation automatically starts a new session. The
// zero ResetPolicy means never. A reset deletes nothing.
type ResetPolicy struct {
	Idle  time.Duration // time without a message after which it is due; 0: never
	Daily bool          // once a day, at Hour
	Hour  int           // 0 to 23
	// Zone is the time zone of Hour; nil: time.Local.
	Zone *time.Location
}

// Due reports whether a session that was last used at last is reset at now, and returns
// the reason in the language of p.
func (r ResetPolicy) Due(p i18n.Printer, last, now time.Time) (reason string, due bool) {
	if last.IsZero() {
		return "", false
	}
	if r.Idle > 0 && now.Sub(last) >= r.Idle {
		return p.T("nothing was said for %s", formatSpan(p, now.Sub(last))), true
	}
	if r.Daily && last.Before(r.dayStart(now)) {
		return p.T("a new day has begun at %d:00", r.Hour), true
	}
	return "", false
}

// dayStart returns the latest start of a day at or before now.
func (r ResetPolicy) dayStart(now time.Time) time.Time {
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

func formatSpan(p i18n.Printer, d time.Duration) string {
	if d < 2*time.Hour {
		return p.T("%d minutes", int(d.Minutes()))
	}
	if d < 48*time.Hour {
		return p.T("%d hours", int(d.Hours()))
	}
	return p.T("%d days", int(d.Hours()/24))
}
