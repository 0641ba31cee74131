package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hermesd/gateway/schedule"
)

// sunday is the time at which the schedules are parsed: a Sunday, 10:20:30 in Berlin.
func sunday() time.Time { return time.Date(2026, 11, 22, 9, 20, 30, 123, time.UTC) }

func upcoming(t *testing.T, text, zone string) []string {
	t.Helper()
	s, err := schedule.Parse(text, zone, sunday())
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	p, err := s.Plan()
	ok(t, err)
	var list []string
	for _, at := range p.Upcoming(s.Before(sunday()), 3) {
		if s.Kind != schedule.Cron {
			at = at.UTC()
		}
		list = append(list, at.Format("Mon 02 Jan 06 15:04:05 MST"))
	}
	return list
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"30m":                             "Sun 22 Nov 26 09:50:31 UTC",
		"in 30m":                          "Sun 22 Nov 26 09:50:31 UTC",
		"In  2 Hours":                     "Sun 22 Nov 26 11:20:31 UTC",
		"1d":                              "Mon 23 Nov 26 09:20:31 UTC",
		"every 2h":                        "Sun 22 Nov 26 11:20:31 UTC, Sun 22 Nov 26 13:20:31 UTC, Sun 22 Nov 26 15:20:31 UTC",
		"every hour":                      "Sun 22 Nov 26 10:20:31 UTC, Sun 22 Nov 26 11:20:31 UTC, Sun 22 Nov 26 12:20:31 UTC",
		"@every 90m":                      "Sun 22 Nov 26 10:50:31 UTC, Sun 22 Nov 26 12:20:31 UTC, Sun 22 Nov 26 13:50:31 UTC",
		"0 9 * * 1-5":                     "Mon 23 Nov 26 09:00:00 CET, Tue 24 Nov 26 09:00:00 CET, Wed 25 Nov 26 09:00:00 CET",
		"0 9 * * Mon-Fri":                 "Mon 23 Nov 26 09:00:00 CET, Tue 24 Nov 26 09:00:00 CET, Wed 25 Nov 26 09:00:00 CET",
		"0 9 * * fri-sun":                 "Fri 27 Nov 26 09:00:00 CET, Sat 28 Nov 26 09:00:00 CET, Sun 29 Nov 26 09:00:00 CET",
		"0 9 * * 7":                       "Sun 29 Nov 26 09:00:00 CET, Sun 06 Dec 26 09:00:00 CET, Sun 13 Dec 26 09:00:00 CET",
		"0 9 * january,dec *":             "Tue 01 Dec 26 09:00:00 CET, Wed 02 Dec 26 09:00:00 CET, Thu 03 Dec 26 09:00:00 CET",
		"0 12-14 * * *":                   "Sun 22 Nov 26 12:00:00 CET, Sun 22 Nov 26 13:00:00 CET, Sun 22 Nov 26 14:00:00 CET",
		"0 0 29 2 *":                      "Tue 29 Feb 28 00:00:00 CET, Sun 29 Feb 32 00:00:00 CET, Fri 29 Feb 36 00:00:00 CET",
		"@daily":                          "Mon 23 Nov 26 00:00:00 CET, Tue 24 Nov 26 00:00:00 CET, Wed 25 Nov 26 00:00:00 CET",
		"every weekday at 9am":            "Mon 23 Nov 26 09:00:00 CET, Tue 24 Nov 26 09:00:00 CET, Wed 25 Nov 26 09:00:00 CET",
		"weekdays at 9:30 p.m.":           "Mon 23 Nov 26 21:30:00 CET, Tue 24 Nov 26 21:30:00 CET, Wed 25 Nov 26 21:30:00 CET",
		"every monday and friday at noon": "Mon 23 Nov 26 12:00:00 CET, Fri 27 Nov 26 12:00:00 CET, Mon 30 Nov 26 12:00:00 CET",
		"mondays, thu 18.30":              "Mon 23 Nov 26 18:30:00 CET, Thu 26 Nov 26 18:30:00 CET, Mon 30 Nov 26 18:30:00 CET",
		"daily at 12am":                   "Mon 23 Nov 26 00:00:00 CET, Tue 24 Nov 26 00:00:00 CET, Wed 25 Nov 26 00:00:00 CET",
		"every day 12pm":                  "Sun 22 Nov 26 12:00:00 CET, Mon 23 Nov 26 12:00:00 CET, Tue 24 Nov 26 12:00:00 CET",
		"weekends at 8:05":                "Sat 28 Nov 26 08:05:00 CET, Sun 29 Nov 26 08:05:00 CET, Sat 05 Dec 26 08:05:00 CET",
		"2026-12-24T18:00":                "Thu 24 Dec 26 17:00:00 UTC",
		"2026-12-24 18:00:30":             "Thu 24 Dec 26 17:00:30 UTC",
		"2026-12-24":                      "Wed 23 Dec 26 23:00:00 UTC",
		"2026-12-24t18:00z":               "Thu 24 Dec 26 18:00:00 UTC",
		"2026-12-24T18:00:00-05:00":       "Thu 24 Dec 26 23:00:00 UTC",
		"2027-03-28T02:30":                "Sun 28 Mar 27 01:00:00 UTC", // does not exist
		"2027-10-31T02:30":                "Sun 31 Oct 27 00:30:00 UTC", // exists twice
		"2026-11-22T10:19":                "Sun 22 Nov 26 09:19:00 UTC", // just passed
	} {
		if got := strings.Join(upcoming(t, text, "Europe/Berlin"), ", "); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "the schedule is empty",
		"soon":                       "is not understood",
		"30s":                        "too short",
		"every 30s":                  "too short",
		"every 999999999d":           "too long",
		"@every -5m":                 "is not understood",
		"@reboot":                    "there is no schedule @reboot",
		"* * * *":                    "five fields",
		"0 0 9 * * *":                "five fields",
		"60 * * * *":                 `the minute is "60": 60 is not from 0 to 59`,
		"0 9 * * mon-":               "the day of the week",
		"0 9 * * fre":                `"fre" is neither a number nor a name`,
		"0 17-9 * * *":               "the range ends before it begins",
		"*/0 * * * *":                "the step must be from 1 to 59",
		"0 9 31 2 *":                 "never comes",
		"TZ=0":                       "is not understood",
		"CRON_TZ=UTC":                "is not understood",
		"TZ=Europe/Berlin 0 9 * * *": "is not understood",
		"every weekday":              "at what time",
		"every weekday at 25:00":     "want a time of day",
		"every weekday at 9":         "want a time of day",
		"every monday and at 9am":    "want a time of day",
		"every fortnight at 9am":     "is not understood",
		"2026-11-22T10:17":           "is past",
		"2020-01-01":                 "is past",
		"2026-13-01":                 "is not understood",
		"2026-11-32T10:00":           "is not understood",
		"2099-01-01":                 "away",
		strings.Repeat("0,", 200):    "longer than 200",
	} {
		_, err := schedule.Parse(text, "Europe/Berlin", sunday())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := schedule.Parse("30m", "Europe/Atlantis", sunday()); err == nil || !strings.Contains(err.Error(), "no time zone") {
		t.Errorf("got %v, want the zone named", err)
	}
}

// FuzzParse checks that the instants of an accepted schedule are in order and whole
// seconds, and that parsing its text again yields the same schedule.
func FuzzParse(f *testing.F) {
	for _, s := range append([]string{"TZ=0", "2026-12-24 18:00", "in 5 minutes", "1-7/2 * * * 1-7/2", "mondays, thu 18.30"}, forms...) {
		f.Add(s, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, text, zone string) {
		s, err := schedule.Parse(text, zone, sunday())
		if err != nil {
			if err.Error() == "" {
				t.Fatal("the error says nothing")
			}
			return
		}
		p, err := s.Plan()
		ok(t, err)
		at := s.Before(sunday())
		for range 5 {
			next, more := p.Next(at)
			if !more {
				break
			}
			if !next.After(at) || next.Nanosecond() != 0 {
				t.Fatalf("%q after %s: %s", text, at, next)
			}
			at = next
		}
		if again, err := schedule.Parse(s.Text, zone, sunday()); err != nil || again != s {
			t.Fatalf("%q read again is %+v, %v; was %+v", text, again, err, s)
		}
	})
}

func TestNextIsIndependentOfPath(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"}).Draw(r, "zone")
		s, err := schedule.Parse(rapid.SampledFrom(forms).Draw(r, "form"), zone, sunday())
		if err != nil {
			r.Fatal(err)
		}
		p, err := s.Plan()
		if err != nil {
			r.Fatal(err)
		}
		at := sunday().Add(time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(r, "at")))
		next, more := p.Next(at)
		if !more {
			r.Fatal(errors.New("it ends"))
		}
		between := at.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(at))-1).Draw(r, "between")))
		if again, _ := p.Next(between); !again.Equal(next) {
			r.Fatalf("after %s it is %s, after %s %s", at, next, between, again)
		}
	})
}
