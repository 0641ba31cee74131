package recallbench_test

import (
	"context"
	"runtime"
	"testing"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/internal/recallbench"
	"hermesd/agent/engine/lcm"
	"hermesd/agent/engine/summary"
)

// instant is a summary model that takes no time and any request.
type instant struct{}

var answer = enginetest.Body("all is well")

func (instant) Window() int { return 1 << 30 }
func (instant) Complete(context.Context, summary.Request) (summary.Answer, error) {
	return summary.Answer{Text: answer, Model: "instant"}, nil
}

// huge is a session of 10,000 messages and how many bytes they hold.
func huge() (s *enginetest.Session, bytes int) {
	s = &enginetest.Session{Fixed: recallbench.Fixed}
	s.Append(recallbench.Make(recallbench.English(), 10_000, seed).Messages...)
	for _, m := range s.Active() {
		for _, b := range m.Blocks {
			bytes += len(b.Text) + len(b.Input)
		}
	}
	return s, bytes
}

// onePass makes a pass of a new engine called name.
func onePass(ctx context.Context, name string, s *enginetest.Session, v agent.ContextView) error {
	o := compressor.Options{Settings: compressor.Defaults(), Limits: agent.Limits{Window: window}, Completer: instant{}}
	var e agent.Engine = compressor.New(o)
	if name == lcm.Name {
		e = lcm.New(o, s)
	}
	_, err := e.Compress(ctx, v)
	return err
}

// BenchmarkBookkeeping is a pass of 10,000 messages without the time of a model.
func BenchmarkBookkeeping(b *testing.B) {
	s, bytes := huge()
	v := s.View()
	for _, name := range []string{compressor.Name, lcm.Name} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(bytes))
			for b.Loop() {
				if err := onePass(b.Context(), name, s, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAPassAllocatesAtMostTwiceTheTranscript(t *testing.T) {
	s, bytes := huge()
	v := s.View()
	for _, name := range []string{compressor.Name, lcm.Name} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := onePass(t.Context(), name, s, v); err != nil {
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
