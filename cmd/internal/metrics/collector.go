package metrics

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/observe"
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
	Prices *pricing.Table
}

// Watch reads s at each scrape from now on. It must be called at most once, before
// the first model call.
func (m *Metrics) Watch(s Sources) {
	if m != nil {
		m.prices = s.Prices
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
	if m := s.Memory; m != nil {
		e.emit(memoryUp, truth(m.Up))
		for call, at := range map[string]time.Time{"recall": m.Recall.LastOK, "sync": m.Sync.LastOK} {
			if !at.IsZero() {
				e.emit(memorySuccess, unix(at), call)
			}
		}
		e.emit(memoryEvents, float64(m.Queue.Waiting), "waiting")
		e.emit(memoryEvents, float64(m.Queue.Aside), "aside")
		e.emit(memoryOldest, float64(m.Queue.Oldest))
	}
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

// Provider returns p wrapped so that its calls are counted. A nil Metrics returns p.
func (m *Metrics) Provider(p llm.Provider) llm.Provider {
	if m == nil {
		return p
	}
	return &provider{p, m}
}

// A provider counts the calls of the provider that it wraps.
type provider struct {
	llm.Provider
	m *Metrics
}

// trouble lists the outcomes that are zero from the first call of a model on.
var trouble = []llm.Class{llm.Auth, llm.Billing, llm.RateLimit, llm.Overloaded, llm.Server, llm.Timeout, llm.Network}

type call struct {
	m         *Metrics
	on, model string
	began     time.Time
	heard     bool
}

func (p *provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		c := call{m: p.m, on: p.Name(), model: p.m.models.name(cmp.Or(r.Model, p.Name())), began: time.Now()}
		for _, class := range trouble {
			p.m.calls.WithLabelValues(c.on, c.model, observe.ErrorClass(class))
		}
		outcome := string(llm.Network) // if the stream ends without Done
		defer func() { p.m.calls.WithLabelValues(c.on, c.model, outcome).Inc() }()
		for e, err := range p.Provider.Stream(ctx, r) {
			switch done, ok := e.(llm.Done); {
			case err != nil:
				outcome = class(ctx, err)
			case ok:
				outcome = "ok"
				c.done(done)
			default:
				c.event(e)
			}
			if !yield(e, err) {
				if outcome == string(llm.Network) {
					outcome = "cancelled"
				}
				return
			}
		}
	}
}

func class(ctx context.Context, err error) string {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return observe.ErrorClass(e.Class)
	}
	if ctx.Err() != nil {
		return "cancelled"
	}
	return string(llm.Unknown)
}

func (c *call) event(e llm.Event) {
	if _, ok := e.(llm.Notice); ok || c.heard {
		return
	}
	c.heard = true
	c.m.firstToken.WithLabelValues(c.on, c.model).Observe(time.Since(c.began).Seconds())
}

func (c *call) done(d llm.Done) {
	m, u := c.m, d.Usage
	m.callTime.WithLabelValues(c.on, c.model).Observe(time.Since(c.began).Seconds())
	for kind, n := range map[string]int{"input": u.Input, "cache_read": u.CacheRead, "cache_write": u.CacheWrite, "output": u.Output} {
		m.tokens.WithLabelValues(c.on, c.model, kind).Add(float64(max(n, 0)))
	}
	if p, ok := m.prices.Price(cmp.Or(d.Model, c.model)); ok {
		m.cost.WithLabelValues(c.on, c.model).Add(max(float64(p.Cost(u)), 0))
	}
}
