package bench_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/slack"
)

var openLoad = flag.Duration("open", time.Minute, "how long each load of BenchmarkSteady and BenchmarkThreeLoad lasts")

// platforms lists the platforms of the rig, in the order of the loads.
var platforms = [3]string{"telegram", "discord", "slack"}

// BenchmarkThreeIdle measures the cost of an idle daemon connected to three platforms.
func BenchmarkThreeIdle(b *testing.B) {
	w := start(b, daemontest.Options{Everywhere: true})
	for p := range platforms {
		w.sayOn(p, 0, p)
	}
	w.threeAnswered(1)
	time.Sleep(10 * time.Second)
	c0, err := w.Daemon.CPU()
	if err != nil {
		b.Fatal(err)
	}
	const watched = 20 * time.Second
	time.Sleep(watched)
	c1, _ := w.Daemon.CPU()
	m, err := w.Daemon.Memory()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(m.Anon)/(1<<20), "anon-MiB")
	b.ReportMetric(float64(m.File)/(1<<20), "file-MiB")
	b.ReportMetric(float64(m.Anon+m.File)/(1<<20), "resident-MiB")
	b.ReportMetric(ms(c1-c0)/watched.Seconds(), "cpu-ms/s")
}

// BenchmarkThreeStart measures the time from the start of the process until it polls
// Telegram and is connected to Discord and Slack.
func BenchmarkThreeStart(b *testing.B) {
	w := start(b, daemontest.Options{Everywhere: true})
	var took []time.Duration
	for range 10 {
		if err := w.Stop(time.Minute); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if err := w.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(ms(quantile(took, 0.5)), "ready-p50-ms")
	b.ReportMetric(ms(took[len(took)-1]), "ready-max-ms")
}

// BenchmarkThreeLoad sends 20 messages per second on each platform, alone and on all three
// at once, without waiting for answers. The load on the others may raise a platform's p99
// by a factor of at most 1.3.
func BenchmarkThreeLoad(b *testing.B) {
	var alone [len(platforms)]time.Duration
	for p, name := range platforms {
		alone[p] = loaded(b, p)[p]
		b.ReportMetric(ms(alone[p]), name+"-alone-p99-ms")
	}
	together := loaded(b, 0, 1, 2)
	for p, name := range platforms {
		b.ReportMetric(ms(together[p]), name+"-p99-ms")
		b.ReportMetric(float64(together[p])/float64(alone[p]), name+"-ratio")
	}
}

// loaded runs an open-loop load on the given platforms of a new daemon and returns the p99
// of each.
func loaded(b *testing.B, on ...int) (p99 [len(platforms)]time.Duration) {
	b.Helper()
	const people, every = 20, 50 * time.Millisecond
	w := start(b, daemontest.Options{
		Everywhere: true, People: people, Model: llm.Options{FirstByte: 50 * time.Millisecond}, Config: "display:\n  busy_input_mode: queue\n",
	})
	rounds := int(*openLoad / every)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := range rounds {
		<-tick.C
		for _, p := range on {
			w.sayOn(p, n%people, n*len(platforms)+p)
		}
	}
	w.threeAnswered(rounds, on...)
	for _, p := range on {
		trips := w.tripsOn(p)
		if len(trips) != rounds {
			b.Errorf("%s: %d of %d messages are answered", platforms[p], len(trips), rounds)
		}
		p99[p] = quantile(trips, 0.99)
	}
	w.Close()
	return p99
}

// sayOn sends the message #n of a person on a platform.
func (w *world) sayOn(platform, person, n int) {
	text := fmt.Sprintf("message #%d", n)
	switch platform {
	case 0:
		w.Direct[person].Say(w.People[person], text)
	case 1:
		w.Discord.Direct[person].Say(w.Discord.People[person], text)
	case 2:
		w.Slack.Direct[person].Say(w.Slack.People[person], text)
	}
}

// threeAnswered waits until the bot has sent n messages on each of the given platforms, or
// on all platforms if none is given.
func (w *world) threeAnswered(n int, on ...int) {
	w.b.Helper()
	ctx, cancel := context.WithTimeout(w.b.Context(), 5*time.Minute)
	defer cancel()
	all := len(on) == 0
	if all || slices.Contains(on, 0) {
		w.answered(n)
	}
	var err error
	if all || slices.Contains(on, 1) {
		err = w.Discord.Server.Recorder().WaitCount(ctx, n, func(c discord.Counts) int { return c.Sent })
	}
	if err == nil && (all || slices.Contains(on, 2)) {
		err = w.Slack.Server.Recorder().WaitCount(ctx, n, func(c slack.Counts) int { return c.Sent })
	}
	if err != nil {
		w.b.Fatal(err)
	}
}

// tripsOn returns the time from each message offered on a platform to its answer.
func (w *world) tripsOn(platform int) []time.Duration {
	offered, sent := map[string]time.Time{}, map[string]time.Time{}
	switch platform {
	case 0:
		return w.trips()
	case 1:
		for _, o := range w.Discord.Server.Recorder().Offers("MESSAGE_CREATE") {
			if o.From != w.Discord.Bot.ID() {
				offered[mark(o.Text)] = o.At
			}
		}
		for _, c := range w.Discord.Server.Recorder().Calls(discord.RouteCreateMessage) {
			sent[mark(c.Text)] = c.At
		}
	case 2:
		for _, o := range w.Slack.Server.Recorder().Offers("message") {
			if o.User != w.Slack.Bot.User().ID() {
				offered[mark(o.Text)] = o.At
			}
		}
		for _, c := range w.Slack.Server.Recorder().Calls("chat.postMessage") {
			sent[mark(c.Params["text"])] = c.At
		}
	}
	var out []time.Duration
	for text, at := range sent {
		if from, ok := offered[text]; ok && text != "" {
			out = append(out, at.Sub(from))
		}
	}
	slices.Sort(out)
	return out
}
