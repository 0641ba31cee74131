package bench_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/memory/openviking"
)

var (
	pairs = flag.Int("pairs", 4, "pairs of runs of BenchmarkProvider")
	idle  = flag.Duration("idle", time.Minute, "how long BenchmarkProviderIdle watches")
)

// withProvider adds an external memory to o: OpenViking over loopback, with the words of
// everybody who may write.
func withProvider(b *testing.B, o daemontest.Options) (daemontest.Options, *openviking.Server) {
	b.Helper()
	s := openviking.New(openviking.Options{})
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	o.Env = []string{"OPENVIKING_URL=" + s.URL}
	o.Config += "memory:\n  provider: openviking\n  people: everyone\n"
	return o, s
}

// BenchmarkProvider compares a daemon with an external memory to one without, in pairs
// whose order alternates: messages per second and processor time per message when 100
// users write 5 messages each at once, and the model takes 50 ms.
func BenchmarkProvider(b *testing.B) {
	var speeds, costs []float64
	for n := range *pairs {
		var speed, cost [2]float64 // without, with
		for i := range speed {
			k := (n + i) % 2
			speed[k], cost[k] = providerRun(b, k == 1)
		}
		b.Logf("without and with: %.0f and %.0f messages/s, %.2f and %.2f ms of processor time per message", speed[0], speed[1], cost[0], cost[1])
		speeds, costs = append(speeds, speed[1]/speed[0]), append(costs, cost[1]-cost[0])
	}
	slices.Sort(speeds)
	slices.Sort(costs)
	b.ReportMetric(speeds[len(speeds)/2], "speed-ratio")
	b.ReportMetric(costs[len(costs)/2], "more-cpu-ms/message")
}

func providerRun(b *testing.B, provider bool) (perSecond, cpu float64) {
	const people, rounds = 100, 5
	o := daemontest.Options{People: people, Model: llm.Options{FirstByte: 50 * time.Millisecond}, Config: "display:\n  busy_input_mode: queue\n"}
	var s *openviking.Server
	if provider {
		o, s = withProvider(b, o)
	}
	w := start(b, o)
	defer w.Close()
	begin := time.Now()
	for i := range rounds {
		for p := range w.People {
			w.Direct[p].Say(w.People[p], fmt.Sprintf("message #%d", i*people+p))
		}
	}
	w.answered(people * rounds)
	took := time.Since(begin)
	time.Sleep(2 * time.Second) // until the messages are indexed and told too
	used, err := w.Daemon.CPU()
	if err != nil {
		b.Fatal(err)
	}
	if s != nil && len(s.Calls()) < people*rounds {
		b.Errorf("the memory was called %d times", len(s.Calls()))
	}
	return people * rounds / took.Seconds(), ms(used) / (people * rounds)
}

// BenchmarkProviderIdle watches two idle daemons at the same time, without and with an
// external memory.
func BenchmarkProviderIdle(b *testing.B) {
	o, s := withProvider(b, daemontest.Options{})
	ws := [2]*world{start(b, daemontest.Options{}), start(b, o)}
	for _, w := range ws {
		w.Direct[0].Say(w.People[0], "hello #1")
		w.answered(1)
	}
	time.Sleep(10 * time.Second)
	calls := len(s.Calls())
	var switches, cpu [2]float64
	read := func(sign float64) {
		for i, w := range ws {
			n, err := w.Daemon.Switches()
			c, err2 := w.Daemon.CPU()
			if err != nil || err2 != nil {
				b.Fatal(err, err2)
			}
			switches[i] += sign * float64(n)
			cpu[i] += sign * ms(c)
		}
	}
	read(-1)
	time.Sleep(*idle)
	read(1)
	for i, name := range []string{"without", "with"} {
		b.ReportMetric(switches[i]/idle.Seconds(), "wakeups/s-"+name)
		b.ReportMetric(cpu[i]/idle.Seconds(), "cpu-ms/s-"+name)
	}
	b.ReportMetric(float64(len(s.Calls())-calls), "calls")
}
