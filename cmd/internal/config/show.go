package config

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/internal/secret"
)

// A Setting is one key of the effective configuration. Of a secret it shows only
// whether it is set.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Settings returns every key of c with its value and origin, in the order of the
// example configuration.
func Settings(c *Config, r Report) (all []Setting) {
	yamlconf.Walk(c, func(path string, v any) {
		s := Setting{Key: path, Value: v, Origin: r.Origins[path].String()}
		switch x := s.Value.(type) {
		case time.Duration:
			s.Value = yamlconf.Span(x)
		case secret.Value:
			s.Value = x.String()
		}
		all = append(all, s)
	})
	return all
}

// Show writes the effective configuration to w: one key per line with its origin,
// and the models in use. No secret is shown.
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
		fmt.Fprintf(tw, "%s: %s\t# %s\n", s.Key, yamlconf.Flow(s.Value), s.Origin)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	if _, err := io.WriteString(w, r.Secrets.Mask(b.String())); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	return nil
}
