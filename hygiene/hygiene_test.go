package hygiene_test

import (
	"testing"

	"pgregory.net/rapid"

	"hermesd/hygiene"
)

func TestDecide(t *testing.T) {
	on := hygiene.Settings{Enabled: true, MessageLimit: 5000}
	for _, c := range []struct {
		name             string
		f                hygiene.Facts
		s                hygiene.Settings
		compress, urgent bool
	}{
		{"one token below 85 %, reported", hygiene.Facts{Reported: 169_999, Window: 200_000, Messages: 4}, on, false, false},
		{"85 %, reported", hygiene.Facts{Reported: 170_000, Window: 200_000, Messages: 4}, on, true, false},
		{"one token below, reported and added", hygiene.Facts{Reported: 100_000, Since: 69_999, Window: 200_000, Messages: 4}, on, false, false},
		{"85 %, reported and added", hygiene.Facts{Reported: 100_000, Since: 70_000, Window: 200_000, Messages: 4}, on, true, false},
		{"one token below, estimated", hygiene.Facts{Estimate: 169_999, Window: 200_000, Messages: 4}, on, false, false},
		{"85 %, estimated", hygiene.Facts{Estimate: 170_000, Window: 200_000, Messages: 4}, on, true, false},
		{"reported tokens take precedence over the estimate", hygiene.Facts{Reported: 1000, Estimate: 199_000, Window: 200_000, Messages: 4}, on, false, false},
		{"context length not divisible", hygiene.Facts{Reported: 27_880, Window: 32_801, Messages: 4}, on, true, false},
		{"one below with such a context length", hygiene.Facts{Reported: 27_879, Window: 32_801, Messages: 4}, on, false, false},
		{"95 % is urgent", hygiene.Facts{Reported: 190_000, Window: 200_000, Messages: 4}, on, true, true},
		{"below 95 % is not urgent", hygiene.Facts{Reported: 189_999, Window: 200_000, Messages: 4}, on, true, false},
		{"three messages are too few", hygiene.Facts{Reported: 199_000, Window: 200_000, Messages: 3}, on, false, true},
		{"at the message limit", hygiene.Facts{Reported: 10, Window: 200_000, Messages: 5000}, on, true, false},
		{"one below the message limit", hygiene.Facts{Reported: 10, Window: 200_000, Messages: 4999}, on, false, false},
		{"no message limit", hygiene.Facts{Reported: 10, Window: 200_000, Messages: 99999}, hygiene.Settings{Enabled: true}, false, false},
		{"switched off", hygiene.Facts{Reported: 199_000, Window: 200_000, Messages: 40}, hygiene.Settings{MessageLimit: 5000}, false, true},
		{"after a failure", hygiene.Facts{Reported: 171_000, Window: 200_000, Messages: 40, CoolingDown: true}, on, false, false},
		{"after a failure, urgent", hygiene.Facts{Reported: 191_000, Window: 200_000, Messages: 40, CoolingDown: true}, on, true, true},
		{"being compacted already", hygiene.Facts{Reported: 191_000, Window: 200_000, Messages: 40, Busy: true}, on, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := hygiene.Decide(c.f, c.s)
			if d.Compress != c.compress || d.Urgent != c.urgent || d.Reason == "" {
				t.Errorf("got %+v", d)
			}
		})
	}
}

func TestMaxRequest(t *testing.T) {
	for threshold, want := range map[float64]int{0: 85_000, 0.5: 85_000, 0.85: 85_000, 0.9: 90_000, 1: 100_000} {
		if got := (hygiene.Settings{Threshold: threshold}).MaxRequest(100_000); got != want {
			t.Errorf("threshold %v: %d, want %d", threshold, got, want)
		}
	}
}

func TestDecideIsMonotoneInTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := hygiene.Facts{
			Reported: rapid.IntRange(0, 300_000).Draw(t, "reported"), Since: rapid.IntRange(0, 50_000).Draw(t, "since"),
			Estimate: rapid.IntRange(0, 300_000).Draw(t, "estimate"), Window: rapid.IntRange(16_000, 300_000).Draw(t, "window"),
			Messages: rapid.IntRange(0, 6000).Draw(t, "messages"), CoolingDown: rapid.Bool().Draw(t, "cooling"),
		}
		s := hygiene.Settings{Enabled: true, MessageLimit: 5000}
		more := f
		more.Since++
		more.Estimate++
		if f.Reported > 0 && hygiene.Decide(f, s).Compress && !hygiene.Decide(more, s).Compress {
			t.Fatalf("not compacted with one token more: %+v", f)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	f := hygiene.Facts{Reported: 100_000, Since: 70_000, Window: 200_000, Messages: 100_000}
	for b.Loop() {
		hygiene.Decide(f, hygiene.Settings{Enabled: true, MessageLimit: 5000})
	}
}

func TestDecideWithoutContextLength(t *testing.T) {
	f := hygiene.Facts{Messages: 10, Estimate: 1 << 30}
	if d := hygiene.Decide(f, hygiene.Settings{Enabled: true, MessageLimit: 11}); d.Compress || d.Urgent {
		t.Errorf("%+v", d)
	}
	if d := hygiene.Decide(f, hygiene.Settings{Enabled: true, MessageLimit: 10}); !d.Compress || d.Urgent {
		t.Errorf("at the message limit: %+v", d)
	}
}
