package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"hermesd/gateway/i18n"
)

// A field describes one of the five fields of a cron expression.
type field struct {
	name     string
	min, max int
	names    string // three letters each, in order, the first one for min
}

func fields() []field {
	return []field{
		{"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of the month", 1, 31, ""},
		{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
		{"day of the week", 0, 7, "sunmontuewedthufrisatsun"},
	}
}

// macros returns the expressions that have a name, such as @daily.
func macros() map[string]string {
	return map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
}

// normalize returns a cron expression that contains numbers only; the last field
// is from 0 (Sunday) to 6. An error names the invalid field.
func normalize(text string) (string, error) {
	parts := strings.Fields(strings.ToLower(text))
	if len(parts) != 5 {
		return "", i18n.Errorf("a cron expression has five fields (minute, hour, day of the month, month, day of the week), this one has %d", len(parts))
	}
	for i, f := range fields() {
		part, err := f.normalize(parts[i])
		if err != nil {
			return "", i18n.Errorf("the %s is %q: %v", f.name, parts[i], err)
		}
		parts[i] = part
	}
	return strings.Join(parts, " "), nil
}

func (f field) normalize(part string) (string, error) {
	var out []string
	for item := range strings.SplitSeq(part, ",") {
		n, err := f.normalizeItem(item)
		if err != nil {
			return "", err
		}
		out = append(out, n)
	}
	return strings.Join(out, ","), nil
}

var itemForm = regexp.MustCompile(`^(\*|\?|[a-z0-9]+)(?:-([a-z0-9]+))?(?:/([0-9]{1,4}))?$`)

// normalizeItem normalizes one entry of a list: *, a or a-b, each with an optional
// /step.
func (f field) normalizeItem(item string) (string, error) {
	m := itemForm.FindStringSubmatch(item)
	if m == nil {
		return "", i18n.Errorf("want *, a number, a range such as %d-%d, a step such as */2, or a list of these", f.min, f.min+2)
	}
	step := 1
	if m[3] != "" {
		step, _ = strconv.Atoi(m[3])
		if step < 1 || step > f.max {
			return "", i18n.Errorf("the step must be from 1 to %d", f.max)
		}
	}
	if m[1] == "*" || m[1] == "?" {
		if m[2] != "" {
			return "", i18n.Errorf("a range begins with a number")
		}
		if step == 1 {
			return "*", nil
		}
		return fmt.Sprintf("*/%d", step), nil
	}
	from, err := f.parseValue(m[1])
	if err != nil {
		return "", err
	}
	to := from
	switch {
	case m[2] != "":
		if to, err = f.parseValue(m[2]); err != nil {
			return "", err
		}
		if to == 0 && f.max == 7 { // Sunday may end a range
			to = 7
		}
	case m[3] != "":
		if to = f.max; f.max == 7 {
			to = 6
		}
	}
	if to < from {
		return "", i18n.Errorf("the range ends before it begins")
	}
	return f.formatRange(from, to, step), nil
}

// formatRange returns the values of a range. A range that contains day 7 is written
// as a list, because day 7 is day 0.
func (f field) formatRange(from, to, step int) string {
	switch {
	case from == to:
		return strconv.Itoa(from % f.modulus())
	case to < f.modulus() && step == 1:
		return fmt.Sprintf("%d-%d", from, to)
	case to < f.modulus():
		return fmt.Sprintf("%d-%d/%d", from, to, step)
	}
	var days []string
	for v := from; v <= to; v += step {
		if d := strconv.Itoa(v % f.modulus()); !slices.Contains(days, d) {
			days = append(days, d)
		}
	}
	return strings.Join(days, ",")
}

// modulus returns the number that means 0 in the field: 7 for the day of the week.
// For other fields it is greater than every valid value.
func (f field) modulus() int {
	if f.max == 7 {
		return 7
	}
	return f.max + 1
}

// parseValue parses a number or a name.
func (f field) parseValue(s string) (int, error) {
	if len(s) >= 3 && f.names != "" {
		if i := strings.Index(f.names, s[:3]); i >= 0 && i%3 == 0 && isDayOrMonthName(s) {
			return f.min + i/3, nil
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || len(s) > 4 {
		return 0, i18n.Errorf("%q is neither a number nor a name", s)
	}
	if n < f.min || n > f.max {
		return 0, i18n.Errorf("%d is not from %d to %d", n, f.min, f.max)
	}
	return n, nil
}

// isDayOrMonthName reports whether s has three letters or is the full name of a
// month or a day.
func isDayOrMonthName(s string) bool {
	if len(s) == 3 {
		return true
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.ToLower(d.String()) == s {
			return true
		}
	}
	for m := time.January; m <= time.December; m++ {
		if strings.ToLower(m.String()) == s {
			return true
		}
	}
	return false
}

// parseFields parses a cron expression. The returned schedule works in UTC, which
// holds wall-clock times.
func parseFields(expr string) (*cron.SpecSchedule, error) {
	clean, err := normalize(expr) // rejects input on which the library would panic
	if err != nil {
		return nil, err
	}
	s, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(clean)
	if err != nil {
		return nil, i18n.Errorf("the cron expression %q: %v", expr, err)
	}
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return nil, i18n.Errorf("the cron expression %q is not one of five fields", expr)
	}
	spec.Location = time.UTC
	return spec, nil
}
