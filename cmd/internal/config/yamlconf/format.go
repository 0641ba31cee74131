package yamlconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

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
