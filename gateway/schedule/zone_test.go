package schedule_test

import (
	"testing"
	"time"

	"hermesd/gateway/schedule"
)

// TestZoneIsStoredByName checks that the times of a job do not depend on the environment
// of the process, except those of a job that an older version stored.
func TestZoneIsStoredByName(t *testing.T) {
	inBubble(t, func(d *daemon) {
		ctx, operator := d.t.Context(), schedule.OperatorCaller()
		jobs := schedule.NewManager(d.store, schedule.NewValidator("UTC+05:30", telegram()), func(...schedule.JobID) {})
		when, what, zone := "every day at 9:00", "say hi", "Local"
		v, err := jobs.Create(ctx, operator, "", schedule.JobPatch{Schedule: &when, Prompt: &what, Zone: &zone})
		ok(t, err)
		if v.Schedule.Zone != "UTC+05:30" || len(v.Next) == 0 || v.Next[0].UTC().Format("15:04") != "03:30" {
			t.Errorf("zone %q, next %v", v.Schedule.Zone, v.Next)
		}
		old := v.Job
		old.ID, old.Schedule.Zone = "0123456789ab", "Local"
		_, err = d.store.AddJobs(ctx, []schedule.Job{old})
		ok(t, err)
		if next := jobs.View(old).Next; len(next) == 0 || next[0].In(time.Local).Format("15:04") != "09:00" {
			t.Errorf("of an older version: %v", next)
		}
		v, err = jobs.Update(ctx, operator, string(old.ID), schedule.JobPatch{Schedule: &when})
		ok(t, err)
		if v.Schedule.Zone != "UTC+05:30" {
			t.Errorf("an older job that is changed: zone %q", v.Schedule.Zone)
		}
	})
}
