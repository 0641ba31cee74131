package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/llm/pricing"
	"hermesd/cmd/internal/config"
)

// A price file, in YAML or JSON, overrides the built-in prices.
func TestPricesOfAPersonGoFirst(t *testing.T) {
	for name, text := range map[string]string{
		"prices.yaml": "date: 2026-03-01\nmodels:\n- {match: our-model*, input: 2, output: 8, cache_read: 0.5}\n- match: gpt-5\n  input: 0\n  output: 0\n",
		"prices.json": "{\n\t\"date\": \"2026-03-01\", \"source\": \"my contract\",\n\t\"models\": [\n\t\t{\"match\": \"our-model*\", \"input\": 2, \"output\": 8, \"cache_read\": 0.5},\n\t\t{\"match\": \"gpt-5\", \"input\": 0, \"output\": 0}\n\t]\n}\n",
	} {
		home := t.TempDir()
		write(t, filepath.Join(home, name), text)
		_, r := setup{home: home, yaml: "prices_file: " + name + "\n"}.good(t)
		if p, ok := r.Prices.Price("vendor/our-model-2"); !ok || p != (pricing.Price{Input: 2, Output: 8, Read: 0.5, Write5m: 2, Write1h: 2}) {
			t.Errorf("%s: %+v, %v", name, p, ok)
		}
		if p, ok := r.Prices.Price("gpt-5"); !ok || p != (pricing.Price{}) {
			t.Errorf("%s: what costs nothing: %+v, %v", name, p, ok)
		}
		own, ok := r.Prices.Price("claude-sonnet-4-5")
		if builtin, known := pricing.Builtin().Price("claude-sonnet-4-5"); !ok || !known || own != builtin {
			t.Errorf("%s: what the file does not name: %+v, %+v", name, own, builtin)
		}
		want := filepath.Join(home, name)
		if name == "prices.json" {
			want = "my contract"
		}
		if r.Prices.Date != "2026-03-01" || r.Prices.Source != want {
			t.Errorf("%s: dated %q, from %q", name, r.Prices.Date, r.Prices.Source)
		}
	}
	if _, r := (setup{}).good(t); r.Prices != pricing.Builtin() {
		t.Error("without a file there are other prices than the built-in ones")
	}
}

// Problems in the file are reported with their line.
func TestABrokenFileOfPricesStopsTheStart(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "prices.yaml:1:1: date: say from which day the prices are",
		"date: March\n":                 "prices.yaml:1:7: date: say from which day the prices are",
		"date: 2026-03-01\nmodel: []\n": "prices.yaml:2:1: model: unknown key; did you mean models?",
		"date: 2026-03-01\nmodels:\n- match: a\n  input: 1\n":                                     "prices.yaml:3:10: models[0]: input and output are needed",
		"date: 2026-03-01\nmodels:\n- {match: a, input: 1, output: 1}\n- {input: 1, output: 1}\n": "prices.yaml:4:11: models[1]: match names no model",
		"date: 2026-03-01\nmodels:\n- {match: '*', input: 1, output: 1}\n":                        "models[0]: match names no model",
		"date: 2026-03-01\nmodels:\n- {match: a, input: -1, output: 1}\n":                         "prices.yaml:3:21: models[0].input: out of range",
		"date: 2026-03-01\nmodels:\n- {match: a, input: 1, output: .nan}\n":                       "prices.yaml:3:32: models[0].output:",
		"date: 2026-03-01\nmodels:\n- {match: a, input: cheap, output: 1}\n":                      "prices.yaml:3:21: models[0].input: want a number",
		"date: 2026-03-01\nmodels:\n- {match: a, input: 1, output: 1, cache: 2}\n":                "prices.yaml:3:35: models[0].cache: unknown key; known here: cache_read",
		"{\"date\": \"2026-03-01\",\n \"models\": [\n":                                            "prices.yaml:",
		"date: 2026-03-01\nmodels: none\n":                                                        "prices.yaml:2:9: models: want a list of sections",
	} {
		home := t.TempDir()
		write(t, filepath.Join(home, "prices.yaml"), text)
		if got := (setup{home: home, yaml: "prices_file: prices.yaml\n"}).problems(t); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := (setup{yaml: "timezone: UTC\nprices_file: none.yaml\n"}).problems(t); !strings.Contains(got, "config.yaml:2:14: prices_file:") || !strings.Contains(got, "none.yaml cannot be read") {
		t.Errorf("no file: %q", got)
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "prices.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := (setup{home: home, yaml: "prices_file: prices.yaml\n"}).problems(t); !strings.Contains(got, "not a regular file") {
		t.Errorf("a folder: %q", got)
	}
}

// New prices in the same file are reported as a change.
func TestNewPricesAreAChange(t *testing.T) {
	home := t.TempDir()
	load := func(text string) (*config.Config, config.Report) {
		write(t, filepath.Join(home, "prices.yaml"), text)
		return setup{home: home, yaml: "prices_file: prices.yaml\n"}.good(t)
	}
	was, wasReport := load("date: 2026-03-01\n")
	for text, want := range map[string][]string{
		"date: 2026-03-01 # the same\n":                                 nil,
		"date: 2026-03-01\nmodels: [{match: a, input: 1, output: 2}]\n": {"prices_file"},
	} {
		now, nowReport := load(text)
		if got := config.Changed(was, now, wasReport, nowReport); !slices.Equal(got, want) {
			t.Errorf("%q: changed %v, want %v", text, got, want)
		}
	}
}
