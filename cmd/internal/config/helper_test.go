package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/cmd/internal/config"
)

// A setup has the sources of a configuration in a test.
type setup struct {
	yaml, dotenv string
	env, flags   map[string]string
	home         string
}

func (s setup) load(t testing.TB) (*config.Config, config.Report, error) {
	t.Helper()
	if s.home == "" {
		s.home = t.TempDir()
	}
	write(t, filepath.Join(s.home, "config.yaml"), s.yaml)
	if s.dotenv != "" {
		write(t, filepath.Join(s.home, ".env"), s.dotenv)
	}
	return config.Load(config.Options{Home: s.home, Flags: s.flags, Env: func(n string) (string, bool) {
		v, ok := s.env[n]
		return v, ok
	}})
}

// good loads a configuration that must be valid.
func (s setup) good(t testing.TB) (*config.Config, config.Report) {
	t.Helper()
	c, r, err := s.load(t)
	if err != nil {
		t.Fatalf("unexpected error:\n%v", err)
	}
	return c, r
}

// problems loads an invalid configuration and returns its problems without
// directories.
func (s setup) problems(t testing.TB) string {
	t.Helper()
	c, _, err := s.load(t)
	var e *config.Error
	if !errors.As(err, &e) || c != nil {
		t.Fatalf("want problems, got %v and the configuration %v", err, c)
	}
	return texts(e.Problems)
}

func texts(ps []config.Problem) string {
	var b strings.Builder
	for _, p := range ps {
		if filepath.IsAbs(p.File) {
			p.File = filepath.Base(p.File)
		}
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func write(t testing.TB, name, data string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}
