package yamlconf

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// setText parses s and sets the value of a key. The error never contains a secret.
func setText(f *field, v reflect.Value, s string) error {
	switch f.kind {
	case text:
		return setString(f, v, s)
	case secretText:
		v.SetString(s)
	case boolean:
		b, ok := ParseBool(s)
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
		return setWords(f, v, split(s, f.sep))
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

// inEnum returns an error if s is not a valid value of f, in any case. It turns false back
// into the value off, since YAML writers may have changed it.
func inEnum(f *field, s *string) error {
	if f.enum == nil || slices.Contains(f.enum, *s) {
		return nil
	}
	if i := slices.IndexFunc(f.enum, func(c string) bool { return strings.EqualFold(c, *s) }); i >= 0 {
		*s = f.enum[i]
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

// ParseBool parses the usual words for true and false; ok is false for any other.
func ParseBool(s string) (b, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

// parseWhole parses decimal numbers only, since 0644 and 0x10 are ambiguous.
func parseWhole(s string) (int64, error) {
	digits := strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "-")
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || len(digits) > 1 && digits[0] == '0' || strings.HasPrefix(s, "_") {
		return 0, fmt.Errorf("want a whole number, not %s", quote(s))
	}
	return n, nil
}

// parseSpan parses durations such as 30s and 1h30m, and plain numbers of seconds.
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

// bounds returns the minimum and the maximum of f, infinite if there is none.
// Durations are never negative.
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

// bound parses one end of a range. It panics if that is invalid, a programming error
// that every test of a configuration reveals.
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

// rangeWords describes the range of f; "" if it has none.
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

// wants describes the values that f accepts, for errors and the example.
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

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Expand replaces ${NAME} by the variable, ${NAME:-text} by the variable or, if
// that is unset or empty, by text, and $$ by $. Any other $ is literal.
// Values of variables are not expanded again. Errors contain names of variables,
// never their values.
func Expand(s string, look func(string) (string, bool)) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			s = s[i+2:]
			continue
		case '{':
		default:
			b.WriteByte('$')
			s = s[i+1:]
			continue
		}
		body, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return "", fmt.Errorf("${ has no closing brace; write $${ for the characters themselves")
		}
		v, err := variable(body, look)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		s = rest
	}
}

// variable returns the value for the text inside ${…}.
func variable(body string, look func(string) (string, bool)) (string, error) {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if !varName.MatchString(name) {
		return "", fmt.Errorf("${…} needs the name of a variable, or NAME:-default; write $${ for the characters themselves")
	}
	v, ok := look(name)
	switch {
	case ok && (v != "" || !hasFallback):
		return v, nil
	case hasFallback:
		return fallback, nil
	}
	return "", fmt.Errorf("the variable %s is not set; set it in the environment or in .env, or write ${%s:-default}", name, name)
}

// Flow formats a value on one line of YAML.
func Flow(v any) string {
	switch x := v.(type) {
	case string:
		return Quoted(x)
	case []string:
		parts := make([]string, len(x))
		for i, s := range x {
			parts[i] = Quoted(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, Quoted(k)+": "+Quoted(x[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// Quoted formats a string on one line so that YAML reads it unchanged in any
// context.
func Quoted(s string) string {
	b, err := yaml.Marshal(s)
	plain := strings.TrimSuffix(string(b), "\n")
	if err != nil || s == "" || strings.ContainsAny(plain, "\n\t,[]{}#'") || strings.ContainsAny(plain, `"`) {
		return fmt.Sprintf("%q", s)
	}
	return plain
}

// Span formats a duration in short form: 1h instead of 1h0m0s.
func Span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
