package outbox_test

import (
	"testing"
	"time"

	"hermesd/gateway/outbox"
)

func TestRowTimeUntilDueAfterClockChange(t *testing.T) {
	for _, c := range []struct {
		name             string
		delay, due, want time.Duration
	}{
		{"due", 5 * time.Second, 0, 0},
		{"over", 5 * time.Second, -time.Hour, 0},
		{"remaining", 5 * time.Minute, 3 * time.Minute, 3 * time.Minute},
		{"a clock that was corrected", 5 * time.Second, 35 * time.Second, 35 * time.Second},
		{"a clock that was set back", 5 * time.Second, time.Hour + 5*time.Second, 0},
		{"due at once, and a clock that was set back", outbox.DelayUntil(t0, t0), time.Hour, 0},
		{"stored by an older version", 0, time.Hour, time.Hour},
		{"stored by an older version, and a clock that was set back", 0, 25 * time.Hour, 0},
		{"a time named by the platform", 7 * time.Hour, 7 * time.Hour, 7 * time.Hour},
	} {
		row := outbox.Row{State: outbox.NotSent, NextAttempt: t0.Add(c.due), Delay: c.delay}
		if got := row.TimeUntilDue(t0); got != c.want {
			t.Errorf("%s: due in %v, want %v", c.name, got, c.want)
		}
	}
	if got := (outbox.Row{}).TimeUntilDue(t0); got != 0 {
		t.Errorf("a zero row is due in %v", got)
	}
}

func TestRowExpiryIgnoresIdleTime(t *testing.T) {
	row := outbox.Row{State: outbox.Queued, Created: t0}
	r := row.Attempt(t0, 1)
	r.State, r.NextAttempt = outbox.NotSent, t0.Add(time.Minute)
	late := r.Attempt(t0.Add(25*time.Hour), 2) // the clock was set forward, or the daemon was down
	for _, c := range []struct {
		name string
		row  outbox.Row
		at   time.Duration
		want bool
	}{
		{"a day", r, 24 * time.Hour, true},
		{"just under a day", r, 24*time.Hour - 1, false},
		{"a day without attempts", late, 26 * time.Hour, false},
		{"and a day with attempts", late, 49 * time.Hour, true},
		{"a first attempt after a day behind another", row.Attempt(t0.Add(24*time.Hour), 1), 24*time.Hour + time.Minute, false},
		{"and a while later", row.Attempt(t0.Add(24*time.Hour), 1), 24*time.Hour + 15*time.Minute, true},
	} {
		if got := outbox.Expired(c.row, t0.Add(c.at)); got != c.want {
			t.Errorf("%s: expired is %t", c.name, got)
		}
	}
	if r.Attempts != 1 || r.State != outbox.NotSent || late.Attempts != 2 || late.Epoch != 2 || !late.NextAttempt.IsZero() || late.State != outbox.Attempting {
		t.Errorf("%+v", late)
	}
}
