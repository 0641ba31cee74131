package metrics

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/outbox"
	"hermesd/hygiene"
)

// Sources are the functions that return the state of a running daemon. They are
// called at each scrape and must be fast.
type Sources struct {
	Status func() control.Status
	// Outbox returns the outbox rows that are not sent.
	Outbox func(ctx context.Context) ([]outbox.Row, error)
	// Config returns when the configuration was last reloaded (zero: never), whether
	// it was valid, and how many changed settings need a restart.
	Config func() (read time.Time, ok bool, waiting int)
	// Prices is the price table; nil means the built-in one.
	Prices *pricing.Table
}

// Watch reads s at each scrape from now on. It must be called at most once, before
// the first model call.
func (m *Metrics) Watch(s Sources) {
	if m != nil {
		m.prices = cmp.Or(s.Prices, m.prices)
		m.r.MustRegister(&watcher{s})
		for _, a := range s.Status().Accounts {
			m.zeroOn(a.Platform)
		}
	}
}

// A watcher collects metrics from Sources. It is an unchecked collector, since its
// series depend on the configuration.
type watcher struct{ s Sources }

func (w *watcher) Describe(chan<- *prometheus.Desc) {}

func (w *watcher) Collect(out chan<- prometheus.Metric) {
	e := emitter{out}
	s := w.s.Status()
	e.emit(build, 1, s.Version)
	e.emit(started, unix(s.Started))
	e.emit(turnsRunning, float64(s.TurnsRunning))
	e.emit(turnsQueued, float64(s.TurnsQueued))
	e.emit(paused, truth(s.Paused))
	e.emit(inboxEntries, float64(s.Store.Waiting), "waiting")
	e.emit(inboxEntries, float64(s.Store.Claimed), "claimed")
	e.emit(storeCommits, float64(s.Store.Commits))
	e.emit(storeOperations, float64(s.Store.Writes))
	e.emit(storeBytes, float64(s.Store.Bytes))
	e.emit(storeUp, truth(s.Store.Error == ""))
	for _, why := range append(ledger.Reasons(), ledger.Undeclared) {
		e.emit(breaks, float64(s.Breaks[string(why)]), string(why))
	}
	e.emit(cacheMissed, float64(s.CallStats.Missed))
	e.emit(jobs, float64(s.Cron.Jobs))
	e.emit(jobsRunning, float64(s.Cron.Running))
	e.emit(jobsWaiting, float64(s.Cron.Waiting))
	e.emit(clock, truth(!s.Cron.Stalled && s.Cron.Error == ""))
	for _, a := range s.Accounts {
		e.account(a)
	}
	w.outbox(e, s)
	e.background(s.BackgroundCompactions)
	read, ok, waiting := w.s.Config()
	if !read.IsZero() {
		e.emit(configRead, unix(read))
	}
	e.emit(configOK, truth(ok))
	e.emit(configWaiting, float64(waiting))
}

func (e emitter) account(a accounts.Health) {
	on := []string{string(a.Platform), a.Account.Name}
	e.emit(accountUp, truth(a.State == chat.Connected), on...)
	if !a.LastContact.IsZero() {
		e.emit(lastContact, unix(a.LastContact), on...)
	}
}

// maxRead is the largest outbox that is read for a scrape, and readTime the limit
// of the time for reading it.
const (
	maxRead  = 1000
	readTime = time.Second
)

func (w *watcher) outbox(e emitter, s control.Status) {
	live, dead := s.Store.Outbox, s.Store.Dead
	e.emit(outboxRows, float64(live), "undelivered")
	e.emit(outboxRows, float64(dead), stateLabel(outbox.Dead))
	if live+dead > maxRead {
		return
	}
	count := map[outbox.State]int{outbox.Queued: 0, outbox.Attempting: 0, outbox.NotSent: 0, outbox.Uncertain: 0}
	if live > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		defer cancel()
		rows, err := w.s.Outbox(ctx)
		if err != nil { // hermesd_store_up reports it
			return
		}
		for _, r := range rows {
			count[r.State]++
		}
	}
	delete(count, outbox.Dead)
	for state, n := range count {
		e.emit(undelivered, float64(n), stateLabel(state))
	}
}

func (e emitter) background(c hygiene.Stats) {
	e.emit(background, float64(c.Started), "started")
	e.emit(background, float64(c.Failed), "failed")
	e.emit(background, float64(c.Adopted), "adopted")
	e.emit(background, float64(c.Discarded), "discarded")
	e.emit(backgroundWaiting, float64(c.Waiting))
}

type emitter struct{ out chan<- prometheus.Metric }

func (e emitter) emit(d Definition, v float64, values ...string) {
	kind := prometheus.GaugeValue
	if d.Kind == Counter {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), kind, v, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), err)
	}
	e.out <- m
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
