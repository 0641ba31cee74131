// Package metrics defines the Prometheus metrics of the daemon and collects them.
//
// A [Metrics] is updated by the pipeline (Observe), by the model providers that it
// wraps (Provider), by the log (Log) and by the store (Damaged, Committed). State
// that the daemon has anyway is read at each scrape (Watch). A nil *Metrics accepts
// all calls and counts nothing. Serving over HTTP with a key is not done here.
package metrics

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"hermesd/agent/llm/pricing"
	"hermesd/gateway/chat"
	"hermesd/gateway/memory"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
)

// A Metrics holds the metrics of one daemon. It is safe for concurrent use, and no
// method blocks.
type Metrics struct {
	r      prometheus.Registerer
	prices *pricing.Table

	messages, denials, turns, attempts, rateLimited, calls, tokens, cost, compactions, toolCalls, mediaCalls, occurrences, panics, logged *prometheus.CounterVec
	turnTime, turnWait, attemptTime, latency, callTime, firstToken, toolTime, mediaTime                                                   *prometheus.HistogramVec
	memoryCalls, memoryRecalls, memoryLost                                                                                                *prometheus.CounterVec
	memoryTime                                                                                                                            *prometheus.HistogramVec

	resumed, damage, storeWritten prometheus.Counter
	storeTime                     prometheus.Observer

	models, tools, rules, walls labelLimiter
	answers                     pendingAnswers
}

// New registers the metrics on r, together with those of the Go runtime and the
// process. It panics if they are registered already.
func New(r prometheus.Registerer) *Metrics {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{
		r: r, prices: pricing.Builtin(),
		messages: counters(r, messages), denials: counters(r, denials), turns: counters(r, turns),
		attempts: counters(r, attempts), rateLimited: counters(r, rateLimited), calls: counters(r, calls), tokens: counters(r, tokens), cost: counters(r, cost),
		compactions: counters(r, compactions), toolCalls: counters(r, toolCalls), occurrences: counters(r, occurrences), panics: counters(r, panics), logged: counters(r, logged),
		turnTime: histograms(r, turnTime), turnWait: histograms(r, turnWait), attemptTime: histograms(r, attemptTime), latency: histograms(r, latency),
		callTime: histograms(r, callTime), firstToken: histograms(r, firstToken), toolTime: histograms(r, toolTime), mediaCalls: counters(r, mediaCalls), mediaTime: histograms(r, mediaTime),
		memoryCalls: counters(r, memoryCalls), memoryRecalls: counters(r, memoryRecalls), memoryLost: counters(r, memoryLost), memoryTime: histograms(r, memoryTime),
		resumed: counters(r, resumed).WithLabelValues(), damage: counters(r, damage).WithLabelValues(),
		storeWritten: counters(r, storeWritten).WithLabelValues(), storeTime: histograms(r, storeTime).WithLabelValues(),
		models: labelLimiter{max: 32}, tools: labelLimiter{max: 256}, rules: labelLimiter{max: 64}, walls: labelLimiter{max: 16},
	}
	m.zero()
	return m
}

// zero creates the series whose first increment must be visible: Prometheus sees
// no increase in a series that starts at one.
func (m *Metrics) zero() {
	for _, level := range []zapcore.Level{zapcore.WarnLevel, zapcore.ErrorLevel} {
		m.logged.WithLabelValues(level.String())
	}
	for _, where := range []string{"in a turn", "in a tool", "in conversion", "while sending", "in a request"} {
		m.panics.WithLabelValues(m.walls.name(where))
	}
	for _, r := range observe.Results() {
		for _, k := range observe.Kinds() {
			m.turns.WithLabelValues(string(k), string(r))
		}
		if r != observe.Released {
			m.occurrences.WithLabelValues(string(r))
		}
	}
	for _, s := range observe.MediaTasks() {
		m.mediaCalls.WithLabelValues(string(s), outcome(true))
		m.mediaCalls.WithLabelValues(string(s), outcome(false))
	}
	for _, s := range []schedule.OccurrenceState{schedule.Skipped, schedule.Missed} {
		m.occurrences.WithLabelValues(string(s))
	}
}

func (m *Metrics) zeroOn(p chat.Platform) {
	for _, v := range observe.AcceptResults() {
		m.messages.WithLabelValues(string(p), string(v))
	}
	for _, s := range []outbox.State{outbox.Sent, outbox.NotSent, outbox.Uncertain, outbox.Dead} {
		m.attempts.WithLabelValues(string(p), stateLabel(s))
	}
	m.attempts.WithLabelValues(string(p), previewGivenUp)
}

func counters(r prometheus.Registerer, d Definition) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	r.MustRegister(v)
	return v
}

func histograms(r prometheus.Registerer, d Definition) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets}, d.Labels)
	r.MustRegister(v)
	return v
}

// Handler serves the metrics of g in the text format of Prometheus.
func Handler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Observe counts an event of the pipeline.
func (m *Metrics) Observe(e observe.Event) {
	if m == nil {
		return
	}
	switch e := e.(type) {
	case observe.EventReceived:
		m.accepted(e)
	case observe.TurnStarted:
		m.turnWait.WithLabelValues(string(e.Kind)).Observe(seconds(e.At.Sub(e.Accepted)))
		m.answers.expect(e.Turn, wait{e.Accepted, e.Kind})
		if e.Resumed {
			m.resumed.Inc()
		}
	case observe.TurnEnded:
		m.turns.WithLabelValues(string(e.Kind), string(e.Result)).Inc()
		m.turnTime.WithLabelValues(string(e.Kind)).Observe(seconds(e.Took))
		if e.Kind == observe.Scheduled && e.Result != observe.Released {
			m.occurrences.WithLabelValues(string(e.Result)).Inc()
		}
	case observe.ToolCalled:
		tool := m.tools.name(e.Tool)
		m.toolCalls.WithLabelValues(tool, outcome(e.Failed)).Inc()
		m.toolTime.WithLabelValues(tool).Observe(seconds(e.Took))
	case observe.MediaProcessed:
		m.mediaCalls.WithLabelValues(string(e.Task), outcome(e.Failed)).Inc()
		m.mediaTime.WithLabelValues(string(e.Task)).Observe(seconds(e.Took))
	case observe.Compacted:
		m.compactions.WithLabelValues(e.Engine, e.Reason, outcome(e.Failed)).Inc()
	case observe.DeliveryAttempted:
		m.attempted(e)
	case observe.OccurrencesSkipped:
		m.occurrences.WithLabelValues(e.State).Add(float64(e.Count))
	}
}

func (m *Metrics) accepted(e observe.EventReceived) {
	m.messages.WithLabelValues(string(e.Platform), string(e.Result)).Inc()
	if e.Result == observe.Denied {
		m.denials.WithLabelValues(string(e.Platform), m.rules.name(e.Rule)).Inc()
	}
}

func (m *Metrics) attempted(e observe.DeliveryAttempted) {
	on := string(e.Platform)
	if e.RateLimited {
		m.rateLimited.WithLabelValues(on).Inc()
		return
	}
	label := stateLabel(outbox.State(e.State))
	if e.Role == string(outbox.Preview) && e.State == string(outbox.Dead) {
		label = previewGivenUp
	}
	m.attempts.WithLabelValues(on, label).Inc()
	m.attemptTime.WithLabelValues(on).Observe(seconds(e.Took))
	if e.Role != "reply" || e.State != "sent" {
		return
	}
	if w, ok := m.answers.arrived(e.Turn); ok {
		m.latency.WithLabelValues(on, string(w.kind)).Observe(seconds(time.Since(w.since)))
	}
}

// previewGivenUp is the label of a preview that is not retried: the answer follows it.
const previewGivenUp = "preview_given_up"

// stateLabel returns the label of a delivery state. The stored value for dead
// letters differs.
func stateLabel(s outbox.State) string {
	if s == outbox.Dead {
		return "dead_letter"
	}
	return string(s)
}

func outcome(failed bool) string {
	if failed {
		return "failed"
	}
	return "ok"
}

// seconds returns d in seconds; 0 if the clock was set back.
func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// Damaged counts a damaged stored record that was moved away.
func (m *Metrics) Damaged() {
	if m != nil {
		m.damage.Inc()
	}
}

// Committed counts a transaction of the store: its duration and the bytes written.
func (m *Metrics) Committed(took time.Duration, bytes int64) {
	if m != nil {
		m.storeTime.Observe(seconds(took))
		m.storeWritten.Add(float64(max(bytes, 0)))
	}
}

// MemoryCall counts a call of the memory provider.
func (m *Metrics) MemoryCall(c memory.Call) {
	switch {
	case m == nil:
	case c.Kind == memory.TurnCall:
		m.memoryRecalls.WithLabelValues(c.Result).Inc()
	case c.Kind == memory.LeftOut:
		m.memoryLost.WithLabelValues(c.Result).Inc()
	default:
		m.memoryCalls.WithLabelValues(c.Kind, c.Result).Inc()
		m.memoryTime.WithLabelValues(c.Kind).Observe(seconds(c.Took))
	}
}

// Log returns l with a hook that counts warnings, errors and panics. Code that
// recovers a panic logs an error whose message begins with "panic ".
func (m *Metrics) Log(l *zap.Logger) *zap.Logger {
	if m == nil {
		return l
	}
	return l.WithOptions(zap.Hooks(func(e zapcore.Entry) error {
		if e.Level < zapcore.WarnLevel {
			return nil
		}
		m.logged.WithLabelValues(min(e.Level, zapcore.ErrorLevel).String()).Inc()
		if where, ok := strings.CutPrefix(e.Message, "panic "); ok {
			m.panics.WithLabelValues(m.walls.name(where)).Inc()
		}
		return nil
	}))
}

// A labelLimiter limits the values of a label to max; further ones become "other".
type labelLimiter struct {
	max   int
	mu    sync.Mutex // guards what follows
	known map[string]string
}

func (f *labelLimiter) name(s string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v, ok := f.known[s]; ok {
		return v
	}
	if len(f.known) >= f.max {
		return "other"
	}
	if f.known == nil {
		f.known = make(map[string]string)
	}
	v := strings.ToValidUTF8(s, "?")
	f.known[s] = v
	return v
}

// A wait is the start of the wait for the first part of an answer.
type wait struct {
	since time.Time
	kind  observe.Kind
}

// maxWaits is the maximum number of pending answers; the oldest are dropped.
const maxWaits = 4096

// pendingAnswers holds the turns of which nothing is delivered yet.
type pendingAnswers struct {
	mu    sync.Mutex // guards what follows
	since map[string]wait
	order []string // keys of since, oldest first; some are deleted already
}

func (a *pendingAnswers) expect(turn string, w wait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since == nil {
		a.since = make(map[string]wait)
	}
	if _, ok := a.since[turn]; !ok {
		a.order = append(a.order, turn)
	}
	a.since[turn] = w
	if len(a.order) > maxWaits {
		half := len(a.order) / 2
		for _, t := range a.order[:half] {
			delete(a.since, t)
		}
		a.order = append([]string(nil), a.order[half:]...)
	}
}

// arrived removes and returns the wait of a turn; ok is false after the first call.
func (a *pendingAnswers) arrived(turn string) (w wait, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok = a.since[turn]
	delete(a.since, turn)
	return w, ok
}
