package schedule

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/i18n"
)

// MinInterval and MaxInterval bound intervals and delays.
const (
	MinInterval = time.Minute
	MaxInterval = 10 * 366 * 24 * time.Hour
)

// pastTolerance is how far in the past the time of a job that runs once may be.
const pastTolerance = 2 * time.Minute

// maxText is the maximum length of a schedule in bytes.
const maxText = 200

// Forms lists the accepted forms of a schedule in one line, for error messages.
const Forms = `"30m" or "in 2h" (once, after that time), "every 2h", "every weekday at 9am", "every monday and friday at 18:30", a cron expression such as "0 9 * * 1-5" or "@daily", or a time such as "2026-12-24T18:00" (once)`

// errForms is Forms as an argument of i18n.Errorf.
var errForms = i18n.Errorf(Forms)

// Parse parses a schedule that a user wrote at now. zoneName is the zone of its wall
// clock ("" is UTC). The error is for the user: it says what is wrong and what is
// accepted. A schedule without a future occurrence is an error.
func Parse(text, zoneName string, now time.Time) (Schedule, error) {
	text = strings.Join(strings.Fields(text), " ")
	s, err := parse(text, zoneName, now)
	if err != nil {
		return Schedule{}, err
	}
	p, err := s.Plan()
	if err != nil {
		return Schedule{}, err
	}
	if _, ok := p.Next(s.Before(now)); !ok {
		return Schedule{}, i18n.Errorf("the schedule %q never comes: there is no such day", text)
	}
	return s, nil
}

// Before returns the instant after which a job created at now looks for its first
// occurrence: now or, if the time of a Once schedule has just passed, shortly before
// that time.
func (s Schedule) Before(now time.Time) time.Time {
	if s.Kind == Once && !s.At.After(now) {
		return s.At.Add(-time.Second)
	}
	return now
}

func parse(text, zoneName string, now time.Time) (Schedule, error) {
	switch {
	case text == "":
		return Schedule{}, i18n.Errorf("the schedule is empty; write %s", errForms)
	case len(text) > maxText:
		return Schedule{}, i18n.Errorf("the schedule is longer than %d characters; write %s", maxText, errForms)
	}
	loc, err := loadZone(zoneName)
	if err != nil {
		return Schedule{}, err
	}
	if zoneName == "" {
		zoneName = "UTC"
	}
	s := Schedule{Text: text, Zone: zoneName}
	low := strings.ToLower(text)
	for _, form := range []func(string, *Schedule, *time.Location, time.Time) (bool, error){parseMacro, parseDelay, parseInterval, parseInstant, parseDaysAndTime, parseExpression} {
		if ok, err := form(low, &s, loc, now); ok || err != nil {
			return s, err
		}
	}
	return s, i18n.Errorf("the schedule %q is not understood; write %s", text, errForms)
}

// parseMacro parses @daily and the like.
func parseMacro(low string, s *Schedule, loc *time.Location, now time.Time) (bool, error) {
	if !strings.HasPrefix(low, "@") {
		return false, nil
	}
	if rest, ok := strings.CutPrefix(low, "@every "); ok {
		return parseInterval("every "+rest, s, loc, now)
	}
	expr, ok := macros()[low]
	if !ok {
		return false, i18n.Errorf("there is no schedule %s; there are @hourly, @daily, @weekly, @monthly and @yearly", low)
	}
	s.Kind, s.Expr = Cron, expr
	return true, nil
}

var spanForm = regexp.MustCompile(`^([0-9]{1,9})? ?(m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|s|secs?|seconds?)$`)

// parseSpan parses 30m, 2 hours, 1d, or a unit alone. ok reports whether low has
// this form.
func parseSpan(low string) (d time.Duration, ok bool, err error) {
	m := spanForm.FindStringSubmatch(low)
	if m == nil {
		return 0, false, nil
	}
	n := int64(1)
	if m[1] != "" {
		n, _ = strconv.ParseInt(m[1], 10, 64)
	}
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[m[2][0]]
	if n > int64(math.MaxInt64/unit) {
		n = int64(math.MaxInt64 / unit)
	}
	d = time.Duration(n) * unit
	if d < MinInterval || d > MaxInterval {
		return 0, true, i18n.Errorf("%q is too short or too long; it must be from %s to %s", low, durationText(MinInterval), durationText(MaxInterval))
	}
	return d, true, nil
}

// durationText returns a duration in words, as an argument of i18n.Errorf.
func durationText(d time.Duration) error {
	if n := int(d / (24 * time.Hour)); n > 1 && d == time.Duration(n)*24*time.Hour {
		return i18n.Errorf("%d days", n)
	}
	return i18n.Errorf("%d minutes", int(d.Minutes()))
}

// parseDelay parses "30m" and "in 30m".
func parseDelay(low string, s *Schedule, _ *time.Location, now time.Time) (bool, error) {
	rest, in := strings.CutPrefix(low, "in ")
	if !in && (rest == "" || rest[0] < '0' || rest[0] > '9') {
		return false, nil
	}
	d, ok, err := parseSpan(rest)
	if !ok || err != nil {
		return false, err
	}
	s.Kind, s.At = Once, ceilSecond(now.Add(d))
	return true, nil
}

// ceilSecond rounds up to a whole second and converts to UTC.
func ceilSecond(t time.Time) time.Time {
	return t.Add(time.Second - 1).Truncate(time.Second).UTC()
}

// parseInterval parses "every 2h" and "every hour".
func parseInterval(low string, s *Schedule, _ *time.Location, now time.Time) (bool, error) {
	rest, ok := strings.CutPrefix(low, "every ")
	if !ok {
		return false, nil
	}
	d, ok, err := parseSpan(rest)
	if !ok || err != nil {
		return false, err
	}
	s.Kind, s.Every, s.At = Interval, d, ceilSecond(now)
	return true, nil
}

var dateForm = regexp.MustCompile(`^[0-9]{4}-[0-9]`)

// parseInstant parses a date with or without a time, with an offset or in loc.
func parseInstant(low string, s *Schedule, loc *time.Location, now time.Time) (bool, error) {
	if !dateForm.MatchString(low) {
		return false, nil
	}
	text := strings.Replace(strings.ToUpper(low), " ", "T", 1)
	at, ok := time.Time{}, false
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z0700"} {
		if t, err := time.Parse(layout, text); err == nil {
			at, ok = t.UTC(), true
		}
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil { // t holds the wall clock
			at, ok = firstInstantAt(t, loc), true
		}
	}
	if !ok {
		return false, i18n.Errorf("the time %q is not understood; write it as 2026-12-24T18:00, in your time zone, or with an offset: 2026-12-24T18:00+01:00", low)
	}
	at = ceilSecond(at)
	if now.Sub(at) > pastTolerance {
		return false, i18n.Errorf("%s is past; a job that runs once needs a time to come", at.In(loc).Format("2006-01-02 15:04 MST"))
	}
	if at.Sub(now) > MaxInterval {
		return false, i18n.Errorf("%s is more than %s away", at.In(loc).Format(time.DateOnly), durationText(MaxInterval))
	}
	s.Kind, s.At = Once, at
	return true, nil
}

// parseExpression parses five cron fields.
func parseExpression(low string, s *Schedule, _ *time.Location, _ time.Time) (bool, error) {
	first, _, _ := strings.Cut(low, " ")
	n := len(strings.Fields(low))
	if strings.Trim(first, "0123456789*/,-?") != "" || (n < 5 || n > 7) && !strings.Contains(low, "*") {
		return false, nil
	}
	expr, err := normalize(low)
	if err != nil {
		return false, err
	}
	s.Kind, s.Expr = Cron, expr
	return true, nil
}

// parseDaysAndTime parses days and a time of day:
//
//	[every] DAYS [at] TIME
//
//	DAYS  day, daily, weekday(s), weekend(s), or names of days, in full, plural or
//	      three letters, separated by "," or "and"
//	TIME  9am, 9:30pm, 09:30, 18.30, noon, midnight
func parseDaysAndTime(low string, s *Schedule, _ *time.Location, _ time.Time) (bool, error) {
	rest, every := strings.CutPrefix(low, "every ")
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ',' })
	days, n := parseDayNames(parts)
	if n == 0 {
		if every {
			return false, i18n.Errorf("the schedule %q is not understood; write %s", low, errForms)
		}
		return false, nil
	}
	parts = parts[n:]
	if len(parts) > 0 && parts[0] == "at" {
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return false, i18n.Errorf("%q does not say at what time; write for example %q", low, low+" at 9am")
	}
	hour, minute, err := parseTimeOfDay(strings.Join(parts, ""))
	if err != nil {
		return false, err
	}
	s.Kind, s.Expr = Cron, fmt.Sprintf("%d %d * * %s", minute, hour, days)
	return true, nil
}

// parseDayNames parses days at the beginning of words. It returns the last field of a
// cron expression and the number of words used.
func parseDayNames(words []string) (days string, n int) {
	var list []int
	for n < len(words) {
		and := n > 0 && words[n] == "and" && n+1 < len(words)
		if and {
			n++
		}
		from, to, ok := parseDayName(words[n])
		if !ok {
			if and {
				n--
			}
			break
		}
		for d := from; d <= to; d++ {
			if !slices.Contains(list, d%7) {
				list = append(list, d%7)
			}
		}
		n++
	}
	return cronDays(list), n
}

func cronDays(list []int) string {
	if len(list) == 7 {
		return "*"
	}
	slices.Sort(list)
	text := make([]string, len(list))
	for i, d := range list {
		text[i] = strconv.Itoa(d)
	}
	return strings.Join(text, ",")
}

// parseDayName parses one word for a range of days, from 0 (Sunday) to 7 (Sunday
// again).
func parseDayName(w string) (from, to int, ok bool) {
	switch w {
	case "day", "days", "daily":
		return 0, 6, true
	case "weekday", "weekdays":
		return 1, 5, true
	case "weekend", "weekends":
		return 6, 7, true
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		if w == name || w == name+"s" || w == name[:3] {
			return int(d), int(d), true
		}
	}
	return 0, 0, false
}

var timeForm = regexp.MustCompile(`^([0-9]{1,2})(?:[:.]([0-9]{2}))?(am|pm|a\.m\.|p\.m\.)?$`)

var errTime = i18n.Errorf("want a time of day such as 9am, 9:30pm, 18:30, noon or midnight")

// parseTimeOfDay parses a time of day; see parseDaysAndTime.
func parseTimeOfDay(s string) (hour, minute int, err error) {
	switch s {
	case "noon":
		return 12, 0, nil
	case "midnight":
		return 0, 0, nil
	}
	m := timeForm.FindStringSubmatch(s)
	if m == nil || m[2] == "" && m[3] == "" {
		return 0, 0, i18n.Errorf("%q: %v", s, errTime)
	}
	hour, _ = strconv.Atoi(m[1])
	if m[2] != "" {
		minute, _ = strconv.Atoi(m[2])
	}
	switch half := m[3]; {
	case half == "" && hour > 23 || half != "" && (hour < 1 || hour > 12) || minute > 59:
		return 0, 0, i18n.Errorf("%q: %v", s, errTime)
	case strings.HasPrefix(half, "p"):
		hour = hour%12 + 12
	case strings.HasPrefix(half, "a"):
		hour %= 12
	}
	return hour, minute, nil
}
