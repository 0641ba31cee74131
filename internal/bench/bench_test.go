package bench_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
)

var (
	soak   = flag.Int("soak", 100_000, "messages of BenchmarkMemory")
	binary string
)

// unitSlack returns by how much timers may be late under systemd.
func unitSlack(b *testing.B) time.Duration {
	b.Helper()
	unit, err := os.ReadFile("../../systemd/hermesd.service")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(unit), "\nTimerSlackNSec=")
	value, _, _ := strings.Cut(rest, "\n")
	slack, err := time.ParseDuration(value)
	if err != nil {
		b.Fatal(err)
	}
	return slack
}

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "run" { // started by BenchmarkFloor in place of the daemon
		if err := runFloor(os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.bench"); f == nil || f.Value.String() == "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "hermesd-bench")
	if err == nil {
		err = os.Setenv("CGO_ENABLED", "0") // as in a release
	}
	if err == nil {
		binary, err = daemontest.Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// world is a running daemon with simulated users.
type world struct {
	*daemontest.Rig
	b *testing.B
}

func start(b *testing.B, o daemontest.Options) *world {
	b.Helper()
	o.Binary, o.Home = cmp.Or(o.Binary, binary), filepath.Join(b.TempDir(), "home")
	o.TimerSlack = cmp.Or(o.TimerSlack, unitSlack(b))
	o.Model.NoBodies = true
	o.Out = os.Stderr
	o.Config += "logging:\n  level: warn\n"
	r, err := daemontest.New(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.Close)
	if err := r.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return &world{r, b}
}

// answered waits until the bot has sent n messages.
func (w *world) answered(n int) {
	w.b.Helper()
	ctx, cancel := context.WithTimeout(w.b.Context(), 5*time.Minute)
	defer cancel()
	if err := w.Telegram.Recorder().WaitCount(ctx, n, func(c telegram.Counts) int { return c.Sent }); err != nil {
		w.b.Fatal(err)
	}
}

// trips returns the time from each offered message to its answer. Both texts contain #n.
func (w *world) trips() []time.Duration {
	offered := map[string]time.Time{}
	for _, o := range w.Telegram.Recorder().Offers() {
		offered[mark(o.Text)] = o.At
	}
	var out []time.Duration
	for _, c := range w.Telegram.Recorder().Calls("sendMessage") {
		if at, ok := offered[mark(c.Params["text"])]; ok {
			out = append(out, c.At.Sub(at))
		}
	}
	slices.Sort(out)
	return out
}

func mark(text string) string {
	i := strings.IndexByte(text, '#')
	if i < 0 {
		return ""
	}
	end := i + 1
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	return text[i:end]
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// added returns the time that the gateway needed for each offered message: from the offer
// to the model request, and from the model's answer to the send. Messages must have been
// sent one at a time.
func (w *world) added() []time.Duration {
	sent := map[string]time.Time{}
	for _, c := range w.Telegram.Recorder().Calls("sendMessage") {
		sent[mark(c.Params["text"])] = c.At
	}
	requests, next := w.Model.Requests(), 0
	var out []time.Duration
	for _, o := range w.Telegram.Recorder().Offers() {
		at, ok := sent[mark(o.Text)]
		if !ok || mark(o.Text) == "" {
			continue
		}
		for next < len(requests) && requests[next].At.Before(o.At) {
			next++
		}
		if next == len(requests) {
			break
		}
		r := requests[next]
		out = append(out, r.At.Sub(o.At)+max(0, at.Sub(r.Ended)))
	}
	slices.Sort(out)
	return out
}

// BenchmarkOneChat measures the time that the gateway adds to one message in an idle
// daemon, with a model that answers immediately: from the offer to the model request, and
// from the model's answer to the send. The chat starts a new conversation every 20
// messages, so that the gateway is measured and not the sending of a long history.
func BenchmarkOneChat(b *testing.B) {
	w := start(b, daemontest.Options{})
	const warm, n, every = 60, 1000, 20
	sent := 0
	say := func(text string) {
		w.Direct[0].Say(w.People[0], text)
		sent++
		w.answered(sent)
	}
	var cpu time.Duration
	b.ResetTimer()
	for i := range warm + n {
		if i%every == 0 {
			say("/new")
		}
		if i == warm {
			before, err := w.Daemon.CPU()
			if err != nil {
				b.Fatal(err)
			}
			cpu = before
		}
		if i < warm {
			say("warming up")
		} else {
			say(fmt.Sprintf("message #%d", i))
		}
	}
	b.StopTimer()
	after, _ := w.Daemon.CPU()
	added := w.added()
	b.ReportMetric(ms(quantile(added, 0.5)), "p50-ms")
	b.ReportMetric(ms(quantile(added, 0.99)), "p99-ms")
	b.ReportMetric(ms(quantile(w.trips(), 0.5)), "p50-with-model-ms")
	b.ReportMetric(ms(after-cpu)/n, "cpu-ms/message")
	b.ReportMetric(ms(fsync(b)), "fsync-ms")
}

// fsync measures the disk: 4 KiB written and synced, the median of 200.
func fsync(b *testing.B) time.Duration {
	f, err := os.Create(filepath.Join(b.TempDir(), "probe"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	page := make([]byte, 4096)
	for range 200 {
		t := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(t))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkCrowd has 100 users write 5 messages each at once, in busy mode queue: every
// message is a separate turn.
func BenchmarkCrowd(b *testing.B) {
	for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
		b.Run(fmt.Sprint("model=", delay), func(b *testing.B) {
			w := start(b, daemontest.Options{People: 100, Model: llm.Options{FirstByte: delay}, Config: "display:\n  busy_input_mode: queue\n"})
			b.ResetTimer()
			begin := time.Now()
			for i := range 5 {
				for p := range w.People {
					w.Direct[p].Say(w.People[p], fmt.Sprintf("message #%d", i*100+p))
				}
			}
			w.answered(500)
			took := time.Since(begin)
			b.StopTimer()
			b.ReportMetric(500/took.Seconds(), "messages/s")
			b.ReportMetric(ms(quantile(w.trips(), 0.99)), "p99-ms")
			w.inOrder(5)
		})
	}
}

// BenchmarkSteady measures the processor time of the daemon per message while 100 users
// write 40 messages per second together, without waiting for answers.
func BenchmarkSteady(b *testing.B) { steady(b, daemontest.Options{}) }

// BenchmarkSteadyWithoutUnit is BenchmarkSteady for a daemon that systemd has not started.
func BenchmarkSteadyWithoutUnit(b *testing.B) {
	steady(b, daemontest.Options{TimerSlack: 50 * time.Microsecond}) // the default of Linux
}

func steady(b *testing.B, o daemontest.Options) {
	const people, every = 100, 25 * time.Millisecond
	o.People, o.Config = people, "display:\n  busy_input_mode: queue\n"
	w := start(b, o)
	rounds := int(*openLoad / every)
	var cpu time.Duration
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range people + rounds {
		if <-tick.C; i == people { // every chat has a session
			w.answered(people)
			before, err := w.Daemon.CPU()
			if err != nil {
				b.Fatal(err)
			}
			cpu = before
		}
		w.Direct[i%people].Say(w.People[i%people], fmt.Sprintf("message #%d", i))
	}
	w.answered(people + rounds)
	time.Sleep(2 * time.Second) // until the messages are indexed too
	after, err := w.Daemon.CPU()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ms(after-cpu)/float64(rounds), "cpu-ms/message")
	b.ReportMetric(ms(quantile(w.trips(), 0.5)), "p50-with-model-ms")
	b.ReportMetric(ms(quantile(w.trips(), 0.99)), "p99-with-model-ms")
}

// BenchmarkOneCrowdedChat has 50 messages sent to one chat at once.
func BenchmarkOneCrowdedChat(b *testing.B) {
	w := start(b, daemontest.Options{Config: "display:\n  busy_input_mode: queue\n"})
	b.ResetTimer()
	begin := time.Now()
	for i := range 50 {
		w.Direct[0].Say(w.People[0], fmt.Sprintf("message #%d", i))
	}
	w.answered(50)
	b.StopTimer()
	b.ReportMetric(50/time.Since(begin).Seconds(), "messages/s")
	w.inOrder(50)
}

// inOrder checks that each chat has n answers, in the order of its messages.
func (w *world) inOrder(n int) {
	w.b.Helper()
	for i, c := range w.Direct {
		last, count := -1, 0
		for _, m := range c.FromBots() {
			var k int
			if _, err := fmt.Sscanf(mark(m.Text), "#%d", &k); err != nil || k <= last {
				w.b.Errorf("chat %d: %q after #%d", i, m.Text, last)
			}
			last = k
			count++
		}
		if count != n {
			w.b.Errorf("chat %d has %d answers of %d", i, count, n)
		}
	}
}

// BenchmarkFarPlatform has 50 users write at once on a platform that needs 100 ms for each
// request: chats must not wait for each other.
func BenchmarkFarPlatform(b *testing.B) {
	w := start(b, daemontest.Options{People: 50, Telegram: telegram.Options{Latency: 100 * time.Millisecond}})
	b.ResetTimer()
	for p := range w.People {
		w.Direct[p].Say(w.People[p], fmt.Sprintf("message #%d", p))
	}
	w.answered(50)
	b.StopTimer()
	trips := w.trips()
	b.ReportMetric(ms(quantile(trips, 0.5)), "p50-ms")
	b.ReportMetric(ms(quantile(trips, 0.99)), "p99-ms")
}
