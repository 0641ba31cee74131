package pricing_test

import (
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPriceByModel(t *testing.T) {
	tab := pricing.Builtin()
	if tab.Date == "" || tab.Source == "" {
		t.Error("the prices do not say when and where they were looked up")
	}
	for model, input := range map[string]pricing.USD{
		"claude-opus-4-8": 5, "anthropic/claude-opus-4.8": 5, "Claude-Opus-4-1-20250805": 15, "claude-opus-4-20250514": 15, "claude-opus-4@20250514": 15,
		"claude-3-7-sonnet-latest": 3, "us.vendor/claude-haiku-4-5-20251001-v1:0": 1, "gpt-5": 1.25, "openai/gpt-5-2025-08-07": 1.25, "gpt-5-mini": 0.25, "gpt-5.4-mini": 0.75, "o3": 2,
	} {
		if p, ok := tab.Price(model); !ok || p.Input != input {
			t.Errorf("%s: got %v, %v, want %v", model, p.Input, ok, input)
		}
	}
	for _, model := range []string{"", "unheard-of", "claude-opus-4-9", "claude-opus-40", "claude-opus-6", "gpt-5.9", "gpt-5-max", "gpt-4o-audio-preview", "o3-pro", "claude", "llama3:8b", "anthropic/claude-opus-4.8:free"} {
		if p, ok := tab.Price(model); ok {
			t.Errorf("%q has a price: %+v", model, p)
		}
	}
}

func TestPriceOverrides(t *testing.T) {
	tab, err := pricing.Builtin().With(strings.NewReader(`{"models":[{"match":"gpt-5","input":1,"output":2},{"match":"mine*","input":0,"output":0},{"match":"mine-large*","input":7,"output":8,"cache_read":1,"cache_write_5m":9}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]pricing.Price{
		"gpt-5":          {Input: 1, Output: 2, Read: 1, Write5m: 1, Write1h: 1},
		"lab/mine-small": {},
		"mine-large-2":   {Input: 7, Output: 8, Read: 1, Write5m: 9, Write1h: 9},
		"gpt-5-mini":     {Input: 0.25, Output: 2, Read: 0.025, Write5m: 0.25, Write1h: 0.25},
	} {
		if got, ok := tab.Price(model); got != want || !ok {
			t.Errorf("%s: got %+v, want %+v", model, got, want)
		}
	}
	// An override wins over a longer key of the built-in table.
	if all, err := pricing.Builtin().With(strings.NewReader(`{"models":[{"match":"gpt*","input":1,"output":1}]}`)); err != nil {
		t.Error(err)
	} else if p, _ := all.Price("gpt-5.4-mini"); p.Input != 1 {
		t.Errorf("got %+v", p)
	}
	for _, bad := range []string{
		`{`, `{"model":[]}`, `{"models":[{"match":"a"}]}`, `{"models":[{"match":"a","input":1}]}`, `{"models":[{"match":"","input":1,"output":1}]}`,
		`{"models":[{"match":"*","input":1,"output":1}]}`, `{"models":[{"match":"a","input":-1,"output":1}]}`, `{"models":[{"match":"a","input":1,"output":1e9}]}`, `{"models":[{"match":"a","input":"1","output":1}]}`,
	} {
		if _, err := pricing.Builtin().With(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func near(a, b pricing.USD) bool { return math.Abs(float64(a-b)) < 1e-12 }

func TestCosts(t *testing.T) {
	p, _ := pricing.Builtin().Price("claude-opus-4-8")
	u := llm.Usage{Input: 1000, CacheRead: 100_000, CacheWrite: 3000, CacheWrite1h: 1000, Output: 500}
	if got := p.Cost(u); !near(got, 0.005+0.05+2*0.00625+0.01+0.0125) {
		t.Errorf("cost %v", got)
	}
	if got := p.Uncached(u); !near(got, 104*0.005+0.0125) {
		t.Errorf("uncached %v", got)
	}
	// 99,000 tokens were sent before, 1,000 belong to this call only, 4,000 are new.
	if got := p.Floor(u, 99_000, 1000); !near(got, 0.0495+0.005+4*0.01+0.0125) {
		t.Errorf("floor %v", got)
	}
	for d, want := range map[pricing.USD]string{0: "$0.0000", 0.00123: "$0.0012", 12.345: "$12.35", 9.9: "$9.9000"} {
		if d.String() != want {
			t.Errorf("got %s, want %s", d, want)
		}
	}
}

// TestFloorAtMostCost checks this for any reported usage, if known is at least
// the number of tokens read from the cache.
func TestFloorAtMostCost(t *testing.T) {
	p, _ := pricing.Builtin().Price("claude-opus-4-8")
	n := rapid.IntRange(0, 1_000_000)
	rapid.Check(t, func(t *rapid.T) {
		u := llm.Usage{Input: n.Draw(t, "input"), CacheRead: n.Draw(t, "read"), CacheWrite: n.Draw(t, "write"), Output: n.Draw(t, "output")}
		known := u.CacheRead + n.Draw(t, "more")
		floor, paid := p.Floor(u, known, u.Input), p.Cost(u)
		if floor < 0 || floor > paid+1e-9 {
			t.Fatalf("floor %v, paid %v", floor, paid)
		}
	})
}

func FuzzPrices(f *testing.F) {
	f.Add(`{"models":[{"match":"a","input":1,"output":2}]}`, "a-20250101")
	f.Fuzz(func(t *testing.T, file, model string) {
		tab, err := pricing.Builtin().With(strings.NewReader(file))
		if err != nil {
			return
		}
		if p, ok := tab.Price(model); ok && (p.Input < 0 || p.Output < 0) {
			t.Errorf("%q: %+v", model, p)
		}
	})
}
