package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
)

// TestLedgerLongSession runs 200 turns with tool steps, overlays that change every turn, two
// compressions and restarts.
func TestLedgerLongSession(t *testing.T) {
	s := newSession()
	for n := range 200 {
		if n == 80 || n == 160 {
			tail := slices.Clone(s.r.Transcript.Since(s.r.Transcript.Len() - 10))
			s.r.Transcript = llm.NewTranscript(append([]llm.Message{llm.UserText("[CONTEXT COMPACTION]"), llm.AssistantText("ok")}, tail...)...)
			s.l.Declare(ledger.Compression)
		}
		if n%33 == 0 {
			declared := s.l.Declared()
			s.restart(t)
			s.l.Declare(declared)
		}
		s.r.Overlay = fmt.Sprintf("<gateway-context>turn %d</gateway-context>", n)
		s.say(fmt.Sprintf("question %d", n))
		for range 3 {
			s.call()
			s.say("calls a tool", "its result")
		}
		s.call()
		s.say("answer")
	}
	sum := ledger.Summarize(s.records)
	if sum.Calls != 800 || sum.Undeclared() != 0 || sum.Declared() != 2 || sum.Breaks[ledger.Compression] != 2 {
		t.Errorf("%+v", sum)
	}
	stored, err := json.Marshal(s.records)
	if err != nil || strings.Contains(string(stored), "gateway-context") || strings.Contains(string(stored), "question") {
		t.Errorf("records hold words of people: %v", err)
	}
	t.Logf("a record is %d bytes of JSON", len(stored)/len(s.records))
}

func TestCosts(t *testing.T) {
	s := newSession()
	s.say(strings.Repeat("word", 10_000))
	usages := []llm.Usage{{CacheWrite: 10_000, Output: 10}, {CacheRead: 10_000, CacheWrite: 100, Output: 10}, {Input: 10_200, Output: 10}}
	for i, u := range usages {
		if i > 0 {
			s.say(strings.Repeat("word", 50), strings.Repeat("word", 50))
		}
		s.records = append(s.records, s.l.RecordCall(ledger.Call{Request: &s.r, Provider: "p", Model: s.to, Usage: u, At: s.now}))
	}
	c := ledger.Price(s.records, pricing.Builtin())
	const in = 5e-6
	out := 30 * 25e-6
	paid := in*(1.25*10_100+0.1*10_000+10_200) + out
	uncached := in*30_300 + out
	floor := in*(1.25*10_200+0.1*20_100) + out
	for _, x := range []struct {
		what      string
		got, want float64
	}{{"paid", float64(c.Paid), paid}, {"uncached", float64(c.Uncached), uncached}, {"floor", float64(c.Floor), floor}} {
		if x.got < x.want*0.995 || x.got > x.want*1.005 {
			t.Errorf("%s: got %v, want %v", x.what, x.got, x.want)
		}
	}
	unknown := s.records[0]
	unknown.Model = "unheard-of"
	if c := ledger.Price([]ledger.Record{unknown, unknown}, pricing.Builtin()); !slices.Equal(c.Unknown, []string{"unheard-of"}) || c.Paid != 0 {
		t.Errorf("an unknown model: %+v", c)
	}
	if got := ledger.Summarize(s.records).Reuse(); got < 32 || got > 34 {
		t.Errorf("reuse %v %%", got)
	}
}

// FuzzRestore restores arbitrary records.
func FuzzRestore(f *testing.F) {
	f.Add(`[{"n":1,"from":0,"messages":1,"hashes":["000000000000000000000000"]}]`)
	f.Add(`[{"n":1,"from":-1,"messages":1}]`)
	f.Add(`[{"n":-5,"from":9000000000,"messages":9000000000}]`)
	f.Fuzz(func(t *testing.T, stored string) {
		var records []ledger.Record
		if json.Unmarshal([]byte(stored), &records) != nil {
			return
		}
		s := newSession()
		s.l = ledger.Restore(records)
		s.say("one")
		s.call()
		s.say("a", "q")
		if r := s.call(); r.Break != "" {
			t.Errorf("%s: %q at %q", stored, r.Break, r.BreakLayer)
		}
		_, _ = ledger.Diff(records, 1, len(records)) // must not panic
		ledger.Price(records, pricing.Builtin())
	})
}

// BenchmarkCall records one call that adds two messages to a session of 10,000, with thirty
// tools of two kilobytes.
func BenchmarkCall(b *testing.B) {
	for _, placement := range []string{"tail", "turn"} {
		b.Run(placement, func(b *testing.B) {
			s := newSession()
			for i := range 30 {
				s.r.Tools = append(s.r.Tools, llm.Tool{Name: fmt.Sprintf("tool_%d", i), Description: strings.Repeat("d", 500), Schema: json.RawMessage(`{"type":"object"` + strings.Repeat(" ", 1500) + `}`)})
			}
			s.r.System = strings.Repeat("prompt ", 2000)
			for range 5000 {
				s.say(strings.Repeat("question ", 60), strings.Repeat("answer ", 60))
			}
			s.r.Overlay = strings.Repeat("overlay ", 60)
			if placement == "turn" {
				s.r.Turn, s.r.Overlay = &llm.TurnOverlay{At: 9990, Text: s.r.Overlay}, ""
			}
			s.say("now")
			s.call()
			more, and := strings.Repeat("more ", 100), strings.Repeat("and more ", 60)
			b.ReportAllocs()
			for b.Loop() {
				s.say(more, and)
				if r := s.l.RecordCall(ledger.Call{Request: &s.r, Provider: "p", Model: s.to, At: s.now}); r.Break != "" {
					b.Fatal(r.BreakLayer)
				}
			}
		})
	}
}
