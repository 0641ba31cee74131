package bench_test

import (
	"fmt"
	"testing"
	"time"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/telegram"
)

// BenchmarkIdle measures the cost of an idle daemon.
func BenchmarkIdle(b *testing.B) {
	w := start(b, daemontest.Options{})
	w.Direct[0].Say(w.People[0], "hello #1")
	w.answered(1)
	time.Sleep(10 * time.Second)
	s0, err := w.Daemon.Switches()
	if err != nil {
		b.Fatal(err)
	}
	c0, _ := w.Daemon.CPU()
	const watched = 20 * time.Second
	time.Sleep(watched)
	s1, _ := w.Daemon.Switches()
	c1, _ := w.Daemon.CPU()
	m, _ := w.Daemon.Memory()
	b.ReportMetric(float64(m.Anon)/(1<<20), "anon-MiB")
	b.ReportMetric(float64(m.File)/(1<<20), "file-MiB")
	b.ReportMetric(float64(s1-s0)/watched.Seconds(), "wakeups/s")
	b.ReportMetric(ms(c1-c0)/watched.Seconds(), "cpu-ms/s")
}

// BenchmarkMemory measures the memory in use after many messages in 1,000 sessions, and
// checks that it does not keep growing.
func BenchmarkMemory(b *testing.B) {
	const people = 1000
	w := start(b, daemontest.Options{
		People: people, Telegram: telegram.Options{CountersOnly: true}, Config: "display:\n  busy_input_mode: queue\n",
	})
	n := 0
	round := func() {
		for p := range w.People {
			w.Direct[p].Say(w.People[p], fmt.Sprintf("message #%d", n))
			n++
		}
		w.answered(n)
	}
	begin := time.Now()
	for n < *soak/2 {
		round()
	}
	half, _ := w.Daemon.Memory()
	for n < *soak {
		round()
	}
	b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "messages/s")
	full, err := w.Daemon.Memory()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(half.Anon)/(1<<20), "half-MiB")
	b.ReportMetric(float64(full.Anon)/(1<<20), "anon-MiB")
	b.ReportMetric(float64(full.File)/(1<<20), "file-MiB")
}

// BenchmarkStart measures the time from the start of the process to its first poll, with
// 10,000 stored sessions.
func BenchmarkStart(b *testing.B) {
	const people = 10_000
	w := start(b, daemontest.Options{
		People: people, Telegram: telegram.Options{CountersOnly: true}, Config: "display:\n  busy_input_mode: queue\n",
	})
	for p := range w.People {
		w.Direct[p].Say(w.People[p], fmt.Sprintf("message #%d", p))
		if p%1000 == 999 {
			w.answered(p + 1)
		}
	}
	if err := w.Stop(time.Minute); err != nil {
		b.Fatal(err)
	}
	const starts = 10
	var took time.Duration
	for range starts {
		begin := time.Now()
		if err := w.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		took += time.Since(begin)
		if err := w.Stop(time.Minute); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(ms(took)/starts, "ready-ms")
}
