package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"

	"hermesd/internal/secret"
)

// A Setting is one key of the effective configuration. A secret shows only that
// it is set.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Settings returns every key of c with its value and where that comes from, in
// the order of the example.
func Settings(c *Config, r Report) (all []Setting) {
	walk(describe(reflect.TypeFor[Config](), "", nil), reflect.ValueOf(c).Elem(), "", func(f *field, v reflect.Value, path string) {
		s := Setting{Key: path, Value: v.Interface(), Origin: r.Origins[path].String()}
		switch x := s.Value.(type) {
		case time.Duration:
			s.Value = spanText(x)
		case secret.Value:
			s.Value = x.String()
		}
		all = append(all, s)
	})
	return all
}

// Show writes the effective configuration to w: one key a line, with where its
// value comes from, and which models will be asked. No secret is shown.
func Show(w io.Writer, c *Config, r Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# home: %s\n", r.Home)
	switch {
	case r.File != "":
		fmt.Fprintf(&b, "# file: %s\n", r.File)
	default:
		fmt.Fprintf(&b, "# file: none (%s does not exist)\n", r.Missing)
	}
	fmt.Fprintf(&b, "# model: %s\n", r.Model)
	for _, f := range r.Fallbacks {
		fmt.Fprintf(&b, "# fallback: %s\n", f)
	}
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range Settings(c, r) {
		fmt.Fprintf(tw, "%s: %s\t# %s\n", s.Key, flow(s.Value), s.Origin)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	if _, err := io.WriteString(w, r.Secrets.Mask(b.String())); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	return nil
}

// flow writes a value on one line of YAML.
func flow(v any) string {
	switch x := v.(type) {
	case string:
		return scalarText(x)
	case []string:
		parts := make([]string, len(x))
		for i, s := range x {
			parts[i] = scalarText(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, scalarText(k)+": "+scalarText(x[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// scalarText writes a text so that YAML reads the same text, on one line and in
// any place.
func scalarText(s string) string {
	b, err := yaml.Marshal(s)
	plain := strings.TrimSuffix(string(b), "\n")
	if err != nil || s == "" || strings.ContainsAny(plain, "\n\t,[]{}#'") || strings.ContainsAny(plain, `"`) {
		return fmt.Sprintf("%q", s)
	}
	return plain
}

// spanText writes a time as people do: 1h and not 1h0m0s.
func spanText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
