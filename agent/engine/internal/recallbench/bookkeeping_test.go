package recallbench_test

import (
	"context"
	"runtime"
	"testing"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/lcm"
	"hermesd/agent/engine/summary"
)

// instantCompleter is a summary model that answers any request at once.
type instantCompleter struct{}

var answer = enginetest.Body("all is well")

func (instantCompleter) Window() int { return 1 << 30 }
func (instantCompleter) Complete(context.Context, summary.Request) (summary.Answer, error) {
	return summary.Answer{Text: answer, Model: "instant"}, nil
}

// hugeSession returns a session of 10,000 messages and their size in bytes.
func hugeSession() (s *enginetest.Session, bytes int) {
	s = &enginetest.Session{Fixed: Fixed}
	s.Append(Make(English(), 10_000, seed).Messages...)
	for _, m := range s.Active() {
		for _, b := range m.Blocks {
			bytes += len(b.Text) + len(b.Input)
		}
	}
	return s, bytes
}

// compactOnce makes a compaction with a new engine called name.
func compactOnce(ctx context.Context, name string, s *enginetest.Session, v agent.ContextView) error {
	o := compressor.Options{Settings: enginetest.Defaults(), Limits: agent.Limits{Window: window}, Completer: instantCompleter{}}
	var e agent.Engine = compressor.New(o)
	if name == lcm.Name {
		e = lcm.New(o, s)
	}
	_, err := e.Compress(ctx, v)
	return err
}

// BenchmarkBookkeeping measures a compaction of 10,000 messages without the
// time of a model.
func BenchmarkBookkeeping(b *testing.B) {
	s, bytes := hugeSession()
	v := s.View()
	for _, name := range []string{compressor.Name, lcm.Name} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(bytes))
			for b.Loop() {
				if err := compactOnce(b.Context(), name, s, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAPassAllocatesAtMostTwiceTheTranscript(t *testing.T) {
	s, bytes := hugeSession()
	v := s.View()
	for _, name := range []string{compressor.Name, lcm.Name} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := compactOnce(t.Context(), name, s, v); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		n := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: a transcript of %d bytes, %d allocated", name, bytes, n)
		if n > 2*uint64(bytes) {
			t.Errorf("%s: a transcript of %d bytes, and %d were allocated", name, bytes, n)
		}
	}
}
