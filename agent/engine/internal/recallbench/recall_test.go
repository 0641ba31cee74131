package recallbench_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/lcm"
	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	page   = "../../../../docs/compression.md"
	window = 128_000
	model  = "claude-sonnet-4-5"
	seed   = 1
)

// bench returns a Bench for an engine by name, or for none.
func bench(t testing.TB, name string) Bench {
	t.Helper()
	price, ok := pricing.Builtin().Price(model)
	if !ok {
		t.Fatalf("%s has no price", model)
	}
	b := Bench{Session: &enginetest.Session{Fixed: Fixed}, Price: price}
	if name == "none" {
		return b
	}
	b.Reader = &Reader{Size: window}
	o := compressor.Options{Settings: enginetest.Defaults(), Limits: agent.Limits{Window: window}, Completer: b.Reader}
	if name == compressor.Name {
		b.Engine = compressor.New(o)
		return b
	}
	e := lcm.New(o, b.Session)
	set, err := tool.NewSet(e.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	grep, ok := set.Lookup("lcm_grep")
	if !ok {
		t.Fatal("there is no lcm_grep")
	}
	b.Engine = e
	b.Search = func(ctx context.Context, text string) (bool, error) {
		in, err := json.Marshal(map[string]string{"pattern": text})
		if err != nil {
			return false, err
		}
		out, err := grep.Run(ctx, tool.Call{Session: "s", Input: in})
		return strings.Contains(out, text), err
	}
	return b
}

// row plays a conversation of n messages with each engine and without one.
func row(t *testing.T, l Language, n int) string {
	c := Make(l, n, seed)
	if err := llm.ValidateMessages(c.Messages); err != nil || len(c.Messages) != n {
		t.Fatalf("%d messages, %v", len(c.Messages), err)
	}
	var out strings.Builder
	for _, name := range []string{"none", compressor.Name, lcm.Name} {
		rep, err := bench(t, name).Play(t.Context(), c)
		if err != nil {
			t.Fatalf("%s, %d messages, %s: %v", l.Name, n, name, err)
		}
		if rep.Lost != 0 || rep.Context+rep.Search != Planted {
			t.Errorf("%s, %d messages, %s: facts are nowhere: %+v", l.Name, n, name, rep)
		}
		fits := rep.Largest <= window
		switch {
		case name == "none" && fits:
			fmt.Fprintf(&out, "| %s, %d: %s tokens | %s ", l.Name, n, thousands(rep.Largest), rep.Cost)
		case name == "none":
			fmt.Fprintf(&out, "| %s, %d: %s tokens | – ", l.Name, n, thousands(rep.Largest))
		case fits:
			fmt.Fprintf(&out, "| %d, %d, %s ", rep.Passes, rep.Context, rep.Cost)
		default:
			t.Errorf("%s, %d messages, %s: a call of %d tokens", l.Name, n, name, rep.Largest)
		}
	}
	return out.String() + "|\n"
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// The rows of the page must equal the measured ones. HERMESD_RECALL=all plays
// the long conversations too, =write writes all rows into the page.
func TestThePageTellsWhatIsRecalled(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- recall -->\n", "<!-- /recall -->\n"
	head, rest, ok := strings.Cut(string(raw), begin)
	_, foot, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("the page has no place for the figures, from %q to %q", begin, end)
	}
	mode := cmp.Or(os.Getenv("HERMESD_RECALL"), "short")
	table := "| conversation | none | compressor | lcm |\n|---|---|---|---|\n"
	for _, l := range []Language{English(), Japanese()} {
		for _, n := range []int{300, 1000, 5000} {
			if mode == "short" && n > 300 {
				continue
			}
			part := row(t, l, n)
			table += part
			if mode != "write" && !strings.Contains(rest, part) {
				t.Errorf("the page does not say what was measured; HERMESD_RECALL=write changes it:\n%s", part)
			}
		}
	}
	if mode == "write" {
		if err := os.WriteFile(page, []byte(head+begin+table+end+foot), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEachConversationHoldsEachFactOnce(t *testing.T) {
	for _, l := range []Language{English(), Japanese()} {
		c := Make(l, 300, 7)
		text, err := json.Marshal(c.Messages)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range c.Keys {
			if n := strings.Count(string(text), key); n != 1 {
				t.Errorf("%s: fact %d, %q, stands %d times", l.Name, i, key, n)
			}
		}
		again := Make(l, 300, 7)
		if fmt.Sprint(again) != fmt.Sprint(c) {
			t.Error("the same seed gives another conversation")
		}
	}
}

func TestAFactThatIsNowhereIsCounted(t *testing.T) {
	c := Make(English(), 300, seed)
	c.Keys = append(c.Keys, "heron-0000")
	for _, name := range []string{compressor.Name, lcm.Name, "none"} {
		rep, err := bench(t, name).Play(t.Context(), c)
		if err != nil || rep.Lost != 1 || rep.Context+rep.Search != Planted {
			t.Errorf("%s: %v, %+v", name, err, rep)
		}
	}
}
