package schedule_test

import (
	_ "embed"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zone data on every machine

	"hermesd/gateway/schedule"
)

// zones lists the names in the tz database.
//
//go:embed testdata/zones.txt
var zones string

// forms are the schedules tested around clock changes.
var forms = []string{
	"* * * * *", "*/7 * * * *", "*/30 * * * *", "0 * * * *", "15,45 * * * *", "0 */2 * * *", "30 1-3 * * *", "5 0 * * *",
	"30 0 * * *", "0 1 * * *", "30 1 * * *", "59 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *", "30 23 * * *",
	"@daily", "@weekly", "@monthly", "@hourly", "@yearly", "0 0 * * sun", "30 2 * * 7", "0 0 1,15 * *", "30 1 * mar,oct sun",
	"every day at 2:30am", "every weekday at 9am", "every saturday and sunday at 00:30", "weekends at midnight",
	"every 30m", "every 1h", "every 1d", "every 36h",
}

// TestScheduleClockChanges compares the schedules with a clock that is read minute by
// minute, around each clock change of ten years in each zone. HERMESD_DST=all tests all
// zones; otherwise a few are tested, which HERMESD_SEED selects again.
func TestScheduleClockChanges(t *testing.T) {
	names := strings.Fields(zones)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HERMESD_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		ok(t, err)
		seed = n
	}
	r := rand.New(rand.NewPCG(seed, 0))
	all := os.Getenv("HERMESD_DST") == "all"
	if !all {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = append([]string{"America/New_York", "Africa/Cairo", "Asia/Beirut", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca"}, names[:8]...)
	}
	from, to := time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)
	changes, slots := 0, 0
	for _, name := range names {
		loc, err := time.LoadLocation(name)
		ok(t, err)
		found := clockChanges(loc, from, to)
		if !all && len(found) > 2 { // the first one and a random one
			found = append(found[:1:1], found[1+r.IntN(len(found)-1)])
		}
		for _, c := range found {
			slots += checkChange(t, name, loc, c)
		}
		changes += len(found)
	}
	if changes < 6 || slots < 3_000 {
		t.Errorf("%d changes and %d slots prove little", changes, slots)
	}
	t.Logf("seed %d: %d zones, %d changes, %d forms, %d slots", seed, len(names), changes, len(forms), slots)
}

// clockChanges returns the instants at which a zone changes its clock.
func clockChanges(loc *time.Location, from, to time.Time) []time.Time {
	var list []time.Time
	for at := from; ; {
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() || end.After(to) {
			return list
		}
		_, before := end.Add(-time.Second).In(loc).Zone()
		if _, after := end.In(loc).Zone(); after != before {
			list = append(list, end)
		}
		at = end
	}
}

// checkChange compares the occurrences of all forms around a change with those that
// reader finds.
func checkChange(t *testing.T, name string, loc *time.Location, change time.Time) (n int) {
	t.Helper()
	begin, end := change.Add(-5*time.Hour), change.Add(28*time.Hour)
	made := begin.Add(-40 * time.Hour)
	// For each minute: the wall times that the clock shows for the first time.
	type step struct {
		at    time.Time
		shown []time.Time
	}
	var steps []step
	most := time.Time{}
	for at := begin.Add(-30 * time.Hour); at.Before(end); at = at.Add(time.Minute) {
		l := at.In(loc)
		wall := time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
		s := step{at: at}
		for w := most.Add(time.Minute); !most.IsZero() && !w.After(wall); w = w.Add(time.Minute) {
			s.shown = append(s.shown, w)
		}
		if wall.After(most) {
			most = wall
		}
		if !at.Before(begin) {
			steps = append(steps, s)
		}
	}
	for _, form := range forms {
		s, err := schedule.Parse(form, name, made)
		ok(t, err)
		p, err := s.Plan()
		ok(t, err)
		due := reader(s, made)
		at := begin.Add(-time.Second)
		for _, st := range steps {
			if !due(st.at, st.shown) {
				continue
			}
			got, ok := p.Next(at)
			if !ok || !got.Equal(st.at) {
				t.Fatalf("%s in %s after %s: got %s, want %s", form, name, at.In(loc), got.In(loc), st.at.In(loc))
			}
			at = got
			n++
		}
		if got, ok := p.Next(at); ok && got.Before(end) {
			t.Fatalf("%s in %s after %s: got %s, want nothing before %s", form, name, at.In(loc), got.In(loc), end.In(loc))
		}
	}
	return n
}

// reader returns a func that reports whether s is due at an instant, given the wall
// times that the clock shows for the first time then.
func reader(s schedule.Schedule, made time.Time) func(at time.Time, shown []time.Time) bool {
	if s.Kind == schedule.Interval {
		return func(at time.Time, _ []time.Time) bool { return at.Sub(made)%s.Every == 0 }
	}
	sets := make([][]int, 5)
	bounds := [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	fields := strings.Fields(s.Expr)
	for i, f := range fields {
		sets[i] = values(f, bounds[i][0], bounds[i][1])
	}
	has := func(i, v int) bool { return slices.Contains(sets[i], v) }
	return func(_ time.Time, shown []time.Time) bool {
		return slices.ContainsFunc(shown, func(w time.Time) bool {
			day, week := has(2, w.Day()), has(4, int(w.Weekday()))
			both := day && week
			if fields[2][0] != '*' && fields[4][0] != '*' {
				both = day || week
			}
			return has(0, w.Minute()) && has(1, w.Hour()) && has(3, int(w.Month())) && both
		})
	}
}

// values returns the numbers that a cron field matches.
func values(f string, least, most int) (list []int) {
	for item := range strings.SplitSeq(f, ",") {
		item, by, stepped := strings.Cut(item, "/")
		step, from, to := 1, least, most
		if stepped {
			step, _ = strconv.Atoi(by)
		}
		if item != "*" {
			a, b, ranged := strings.Cut(item, "-")
			from, _ = strconv.Atoi(a)
			if to = from; ranged {
				to, _ = strconv.Atoi(b)
			}
		}
		for v := from; v <= to; v += step {
			list = append(list, v)
		}
	}
	return list
}

// TestScheduleOncePerDay follows daily schedules through ten years: each date has one
// occurrence, whatever the clock does.
func TestScheduleOncePerDay(t *testing.T) {
	names := []string{"America/New_York", "America/Santiago", "Asia/Beirut"}
	if os.Getenv("HERMESD_DST") == "all" {
		names = strings.Fields(zones)
	}
	from := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range names {
		for _, form := range []string{"30 2 * * *", "@daily", "every day at 1:30am"} {
			s, err := schedule.Parse(form, name, from)
			ok(t, err)
			p, err := s.Plan()
			ok(t, err)
			at, seen := from, map[string]bool{}
			for at.Year() < 2030 {
				next, ok := p.Next(at)
				if !ok || !next.After(at) {
					t.Fatalf("%s in %s after %s: %s", form, name, at, next)
				}
				day := next.In(p.Location()).Format(time.DateOnly)
				if seen[day] {
					t.Fatalf("%s in %s: %s has two", form, name, day)
				}
				seen[day], at = true, next
			}
			if n := int(at.Sub(from).Hours()/24 + 0.5); len(seen) < n-1 || len(seen) > n+1 {
				t.Errorf("%s in %s: %d slots in %d days", form, name, len(seen), n)
			}
		}
	}
}
