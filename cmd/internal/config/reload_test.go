package config_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hermesd/cmd/internal/config"
)

func read(t *testing.T, home, text string) (*config.Config, config.Report) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, r, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

func TestWhatHasChangedIsNamedAndWhetherItIsTaken(t *testing.T) {
	home := t.TempDir()
	old, oldReport := read(t, home, "model:\n  provider: anthropic\n  api_key: sk-one\n")
	if got := config.Changed(old, old, oldReport, oldReport); len(got) != 0 {
		t.Errorf("of itself: %q", got)
	}
	for text, want := range map[string][]string{
		"model:\n  provider: anthropic\n  api_key: sk-two\n":                                                    {"model.api_key"},
		"model:\n  provider: anthropic\n  api_key: sk-one\nlogging:\n  level: debug\n":                          {"logging.level+"},
		"model:\n  provider: anthropic\n  api_key: sk-one\nagent:\n  personalities:\n    pirate: Arr.\n":        {"agent.personalities+"},
		"model:\n  provider: anthropic\n  api_key: sk-one\nplatforms:\n  telegram:\n    allow_from: ['7']\n":    {"platforms.telegram.allow_from+"},
		"model:\n  provider: anthropic\n  api_key: sk-one\naccess:\n  owners: ['7']\ntimezone: Europe/Berlin\n": {"access.owners+", "timezone"},
	} {
		now, report := read(t, home, text)
		got := config.Changed(old, now, oldReport, report)
		for i, key := range got {
			if config.IsLive(key) {
				got[i] += "+"
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for key, want := range map[string]bool{
		"platforms.telegram.accounts.second.allow_from": true, "platforms.telegram.token": false, "platforms.telegram.enabled": false,
		"model.default": false, "agent.personalities.pirate": true, "agent.max_turns": false,
		"memory.people": true, "memory.retaindb.project": true, "plugins.hermes-memory-store.hrr_dim": true, "honcho.timeout": true, "memory.provider": false, "memory.scope": false, "memory.memory_enabled": false,
	} {
		if config.IsLive(key) != want {
			t.Errorf("%s: %t", key, !want)
		}
	}
}

// An API key from .env is not a key of config.yaml; the model counts as changed
// nevertheless.
func TestAKeyInDotenvIsAChange(t *testing.T) {
	home := t.TempDir()
	env := filepath.Join(home, ".env")
	if err := os.WriteFile(env, []byte("OPENAI_API_KEY=one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old, oldReport := read(t, home, "model: {provider: openai, default: m}\n")
	if err := os.WriteFile(env, []byte("OPENAI_API_KEY=two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now, report := read(t, home, "model: {provider: openai, default: m}\n")
	if got := config.Changed(old, now, oldReport, report); !slices.Equal(got, []string{"model"}) {
		t.Errorf("got %q", got)
	}
}

func TestAFileThatIsReplacedMadeOrTouchedIsNoticedByItsContent(t *testing.T) {
	dir := t.TempDir()
	file, env := filepath.Join(dir, "config.yaml"), filepath.Join(dir, ".env")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	put(file, "a: 1\n")
	ctx, stop := context.WithCancel(t.Context())
	seen := make(chan string)
	done := make(chan error)
	go func() {
		done <- config.Watch(ctx, []string{file, env}, func() {
			a, _ := os.ReadFile(file)
			b, _ := os.ReadFile(env)
			seen <- string(a) + string(b)
		})
	}()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%q is not noticed", want)
		}
	}
	next("a: 1\n") // at first
	put(file, "a: 2\n")
	next("a: 2\n")
	put(file, "a: 2\n") // the same again is no change: the next that comes is another
	put(env, "B=1\n")
	next("a: 2\nB=1\n")
	if err := os.Remove(env); err != nil {
		t.Fatal(err)
	}
	next("a: 2\n")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := config.Watch(t.Context(), []string{filepath.Join(dir, "missing", "x")}, nil); err == nil {
		t.Error("a directory that is not there can be looked at")
	}
}
