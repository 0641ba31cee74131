package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/i18n"
)

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
