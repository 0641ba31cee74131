package yamlconf

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setText sets a key that holds a value to what s says. The error says what is
// wrong in words, and never shows a secret.
func setText(f *field, v reflect.Value, s string) error {
	switch f.kind {
	case text:
		return setString(f, v, s)
	case secretText:
		v.SetString(s)
	case boolean:
		b, ok := parseBool(s)
		if !ok {
			return fmt.Errorf("want true or false, not %s", quote(s))
		}
		v.SetBool(b)
	case integer:
		n, err := parseWhole(s)
		if err != nil {
			return err
		}
		return inRange(f, float64(n), func() { v.SetInt(n) })
	case float:
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("want a number, not %s", quote(s))
		}
		return inRange(f, n, func() { v.SetFloat(n) })
	case span:
		d, err := parseSpan(s)
		if err != nil {
			return err
		}
		return inRange(f, float64(d), func() { v.SetInt(int64(d)) })
	case stringList:
		return setWords(f, v, split(s, ","))
	default:
		return fmt.Errorf("want %s, not one value", f.wants())
	}
	return nil
}

func setString(f *field, v reflect.Value, s string) error {
	if err := inEnum(f, &s); err != nil {
		return err
	}
	v.SetString(s)
	return nil
}

func setWords(f *field, v reflect.Value, ws []string) error {
	out := reflect.MakeSlice(v.Type(), 0, len(ws))
	for _, w := range ws {
		if err := inEnum(f, &w); err != nil {
			return err
		}
		out = reflect.Append(out, reflect.ValueOf(w).Convert(v.Type().Elem()))
	}
	if len(ws) == 0 {
		out = reflect.Zero(v.Type())
	}
	v.Set(out)
	return nil
}

// inEnum returns an error if s is none of the choices of f. YAML writers turn
// the choice off into false: that is undone.
func inEnum(f *field, s *string) error {
	if f.enum == nil || slices.Contains(f.enum, *s) {
		return nil
	}
	if strings.EqualFold(*s, "false") && slices.Contains(f.enum, "off") {
		*s = "off"
		return nil
	}
	choices := slices.DeleteFunc(slices.Clone(f.enum), func(c string) bool { return c == "" })
	msg := fmt.Sprintf("want one of %s, not %s", strings.Join(choices, ", "), quote(*s))
	if n := nearest(*s, choices); n != "" {
		msg += "; did you mean " + n + "?"
	}
	return fmt.Errorf("%s", msg)
}

// parseBool takes the words that people use for yes and no.
func parseBool(s string) (b, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

// parseWhole takes decimal numbers only: 0644 and 0x10 mean different things to
// different readers.
func parseWhole(s string) (int64, error) {
	digits := strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "-")
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || len(digits) > 1 && digits[0] == '0' || strings.HasPrefix(s, "_") {
		return 0, fmt.Errorf("want a whole number, not %s", quote(s))
	}
	return n, nil
}

// parseSpan takes 30s, 1h30m and the like, and plain numbers of seconds.
func parseSpan(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.Abs(n) > math.MaxInt64/float64(2*time.Second) {
		return 0, fmt.Errorf("want a time such as 30s, 5m or 1h30m, or a number of seconds, not %s", quote(s))
	}
	return time.Duration(math.Round(n * float64(time.Second))), nil
}

// bounds returns the least and the greatest value of f; where there is none it
// is infinite. Times are never negative.
func (f *field) bounds() (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	if f.kind == span {
		lo = 0
	}
	a, b, ok := strings.Cut(f.rng, "..")
	if !ok {
		return lo, hi
	}
	if a != "" {
		lo = f.bound(a)
	}
	if b != "" {
		hi = f.bound(b)
	}
	return lo, hi
}

// bound reads one end of a range; it panics on one that cannot be read, which
// the package's first test would see.
func (f *field) bound(s string) float64 {
	if f.kind == span {
		d, err := parseSpan(s)
		if err != nil {
			panic(fmt.Sprintf("config: %s has the range %q", f.path, f.rng))
		}
		return float64(d)
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s has the range %q", f.path, f.rng))
	}
	return n
}

// inRange calls set if n is within the range of f.
func inRange(f *field, n float64, set func()) error {
	lo, hi := f.bounds()
	if n < lo || n > hi {
		return fmt.Errorf("out of range: %s", f.rangeWords())
	}
	set()
	return nil
}

// rangeWords spells the range of f out, "" if it has none.
func (f *field) rangeWords() string {
	a, b, _ := strings.Cut(f.rng, "..")
	switch {
	case a != "" && b != "":
		return "from " + a + " to " + b
	case a != "":
		return "at least " + a
	case b != "":
		return "at most " + b
	case f.kind == span:
		return "not negative"
	}
	return ""
}

// wants says what f holds, for errors and the example.
func (f *field) wants() string {
	switch f.kind {
	case boolean:
		return "true or false"
	case integer:
		return "a whole number"
	case float:
		return "a number"
	case span:
		return "a time"
	case stringList:
		return "a list"
	case stringMap:
		return "a mapping of names to texts"
	case list:
		return "a list of sections"
	case section, table:
		return "a section of keys"
	}
	return "a text"
}
