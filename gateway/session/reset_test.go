package session_test

import (
	"testing"
	"time"

	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

func TestResetIsDue(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	at := func(s string) time.Time {
		v, err := time.ParseInLocation("2006-01-02 15:04", s, berlin)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	idle := session.ResetPolicy{Idle: 24 * time.Hour}
	daily := session.ResetPolicy{Daily: true, Hour: 4, Zone: berlin}
	both := session.ResetPolicy{Idle: time.Hour, Daily: true, Hour: 4, Zone: berlin}
	tests := []struct {
		name      string
		r         session.ResetPolicy
		last, now string
		why       string
	}{
		{"never", session.ResetPolicy{}, "2026-01-01 12:00", "2027-01-01 12:00", ""},
		{"idle, a minute early", idle, "2026-01-01 12:00", "2026-01-02 11:59", ""},
		{"idle, just", idle, "2026-01-01 12:00", "2026-01-02 12:00", "nothing was said for 24 hours"},
		{"idle, days", idle, "2026-01-01 12:00", "2026-01-09 12:00", "nothing was said for 8 days"},
		{"same day", daily, "2026-01-01 04:00", "2026-01-02 03:59", ""},
		{"the hour", daily, "2026-01-01 23:00", "2026-01-02 04:00", "a new day has begun at 4:00"},
		{"before the hour of the same night", daily, "2026-01-02 03:59", "2026-01-02 04:00", "a new day has begun at 4:00"},
		{"clocks go forward", daily, "2026-03-28 23:00", "2026-03-29 04:00", "a new day has begun at 4:00"},
		{"whichever is first", both, "2026-01-01 12:00", "2026-01-01 13:00", "nothing was said for 60 minutes"},
		{"whichever is first, the day", both, "2026-01-02 03:30", "2026-01-02 04:10", "a new day has begun at 4:00"},
		{"the clock went back", both, "2026-01-02 12:00", "2026-01-02 11:00", ""},
	}
	for _, tt := range tests {
		why, due := tt.r.Due(i18n.Printer{}, at(tt.last), at(tt.now))
		if why != tt.why || due != (tt.why != "") {
			t.Errorf("%s: %q, %v; want %q", tt.name, why, due, tt.why)
		}
	}
	if _, due := both.Due(i18n.Printer{}, time.Time{}, time.Now()); due {
		t.Error("a session that was never used is over")
	}
}
