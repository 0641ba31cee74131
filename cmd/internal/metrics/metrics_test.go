package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/pricing"
	"hermesd/cmd/internal/metrics"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/memory"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
	"hermesd/hygiene"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A page is the result of a scrape.
type page map[string]*dto.MetricFamily

func scrape(t *testing.T, r prometheus.Gatherer) page {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler(r).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatalf("%v\n%s", err, w.Body)
	}
	return families
}

// of returns the value of a counter or gauge, or the sample count of a histogram.
// labels are name, value, …; NaN means that there is no such series.
func (p page) of(name string, labels ...string) float64 {
	for _, m := range p[name].GetMetric() {
		fits := len(m.Label) == len(labels)/2
		for i := 0; i < len(labels); i += 2 {
			fits = fits && slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == labels[i] && l.GetValue() == labels[i+1] })
		}
		if fits {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return math.NaN()
}

func (p page) wants(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	if got := p.of(name, labels...); math.Abs(got-want) > 1e-9 || math.IsNaN(got) {
		t.Errorf("%s%v is %v, want %v", name, labels, got, want)
	}
}

func TestPipelineIsCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	m := metrics.New(r)
	now := time.Now()
	began := observe.TurnStarted{Turn: "t1", Kind: observe.Message, Platform: chat.Slack, Accepted: now.Add(-2 * time.Second), At: now, Resumed: true}
	for _, e := range []observe.Event{
		observe.EventReceived{Platform: chat.Slack, Result: observe.Accepted},
		observe.EventReceived{Platform: chat.Slack, Result: observe.Denied, Rule: "bot"},
		began,
		observe.ToolCalled{Turn: "t1", Tool: "todo", Took: time.Second},
		observe.ToolCalled{Turn: "t1", Tool: "todo", Failed: true},
		observe.MediaProcessed{Task: observe.Transcription, Took: time.Second},
		observe.MediaProcessed{Task: observe.SpeechSynthesis, Failed: true},
		observe.Compacted{Turn: "t1", Engine: "lcm", Reason: "hygiene"},
		observe.DeliveryAttempted{Turn: "t1", Platform: chat.Slack, Role: "reply", State: "known_not_sent", RateLimited: true},
		observe.DeliveryAttempted{Turn: "t1", Platform: chat.Slack, Role: "reply", State: "known_not_sent"},
		observe.DeliveryAttempted{Turn: "t1", Platform: chat.Slack, Role: "reply", State: "sent", Took: time.Second},
		observe.DeliveryAttempted{Turn: "t1", Platform: chat.Slack, Role: "reply", State: "sent"}, // the second piece
		observe.DeliveryAttempted{Turn: "t1", Platform: chat.Slack, Role: "preview", State: "dead"},
		observe.DeliveryAttempted{Turn: "t1", Platform: chat.Slack, Role: "notice", State: "dead"},
		observe.TurnEnded{TurnStarted: began, Result: observe.Replied, Took: 3 * time.Second},
		observe.TurnEnded{TurnStarted: observe.TurnStarted{Turn: "t2", Kind: observe.Scheduled, Platform: chat.Cron}, Result: observe.Silent},
		observe.OccurrencesSkipped{State: "missed", Count: 3},
	} {
		m.Observe(e)
	}
	m.Damaged()
	m.Committed(time.Millisecond, 4096)
	m.Committed(time.Second, 8192)
	p := scrape(t, r)
	p.wants(t, 1, "hermesd_messages_total", "platform", "slack", "result", "accepted")
	p.wants(t, 1, "hermesd_messages_denied_total", "platform", "slack", "rule", "bot")
	p.wants(t, 1, "hermesd_turns_total", "kind", "message", "result", "replied")
	p.wants(t, 1, "hermesd_turns_resumed_total")
	p.wants(t, 1, "hermesd_delivery_attempts_total", "platform", "slack", "outcome", "dead_letter")
	p.wants(t, 1, "hermesd_delivery_attempts_total", "platform", "slack", "outcome", "preview_given_up")
	p.wants(t, 1, "hermesd_turn_wait_seconds", "kind", "message")
	p.wants(t, 1, "hermesd_turn_duration_seconds", "kind", "message")
	p.wants(t, 1, "hermesd_tool_calls_total", "tool", "todo", "outcome", "ok")
	p.wants(t, 1, "hermesd_tool_calls_total", "tool", "todo", "outcome", "failed")
	p.wants(t, 1, "hermesd_compactions_total", "engine", "lcm", "reason", "hygiene", "outcome", "ok")
	p.wants(t, 1, "hermesd_media_task_calls_total", "task", "transcription", "outcome", "ok")
	p.wants(t, 1, "hermesd_media_task_calls_total", "task", "speech_synthesis", "outcome", "failed")
	p.wants(t, 0, "hermesd_media_task_calls_total", "task", "image_description", "outcome", "failed")
	p.wants(t, 1, "hermesd_media_task_duration_seconds", "task", "transcription")
	p.wants(t, 2, "hermesd_store_commit_duration_seconds")
	p.wants(t, 4096+8192, "hermesd_store_written_bytes_total")
	p.wants(t, 1, "hermesd_delivery_rate_limited_total", "platform", "slack")
	p.wants(t, 1, "hermesd_delivery_attempts_total", "platform", "slack", "outcome", "known_not_sent")
	p.wants(t, 2, "hermesd_delivery_attempts_total", "platform", "slack", "outcome", "sent")
	p.wants(t, 1, "hermesd_delivery_latency_seconds", "platform", "slack", "kind", "message")
	p.wants(t, 1, "hermesd_cron_occurrences_total", "outcome", "silent")
	p.wants(t, 3, "hermesd_cron_occurrences_total", "outcome", "missed")
	p.wants(t, 1, "hermesd_store_damaged_records_total")
	if sum := p["hermesd_delivery_latency_seconds"].GetMetric()[0].GetHistogram().GetSampleSum(); sum < 2 || sum > 60 {
		t.Errorf("the answer was there after %v s", sum)
	}
}

func TestModelCallsAreCountedByWhatCameOfThem(t *testing.T) {
	r := prometheus.NewRegistry()
	m := metrics.New(r)
	scripted := llmtest.NewScripted(
		llmtest.Answer{Text: "Here.", Usage: llm.Usage{Input: 100, CacheRead: 1000, CacheWrite: 10, Output: 7}},
		llmtest.Fail(llm.RateLimit), llmtest.Fail(llm.InvalidResponse), llmtest.Answer{Text: "Half", Cut: true}, llmtest.Say("one two three"), llmtest.Answer{Wait: make(chan struct{})},
	)
	p := m.Provider(scripted)
	q := &llm.Request{Model: "claude-sonnet-4-5", Transcript: llm.NewTranscript(llm.UserText("hi"))}
	last := func(ctx context.Context, stop bool) (err error) {
		for _, err = range p.Stream(ctx, q) {
			if stop {
				break
			}
		}
		return err
	}
	if err := last(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := last(t.Context(), false); err == nil {
			t.Error("the error is gone")
		}
	}
	_, _ = last(t.Context(), false), last(t.Context(), true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := last(gone, false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	s := scrape(t, r)
	on := []string{"provider", p.Name(), "model", "claude-sonnet-4-5"}
	for outcome, n := range map[string]float64{"ok": 1, "rate_limit": 1, "invalid_response": 1, "network": 1, "cancelled": 2} {
		s.wants(t, n, "hermesd_model_calls_total", append(on, "outcome", outcome)...)
	}
	for kind, n := range map[string]float64{"input": 100, "cache_read": 1000, "cache_write": 10, "output": 7} {
		s.wants(t, n, "hermesd_model_tokens_total", append(on, "kind", kind)...)
	}
	s.wants(t, 1, "hermesd_model_call_duration_seconds", on...)
	s.wants(t, 3, "hermesd_model_time_to_first_token_seconds", on...)
	// by the price table: 3 for input, 0.3 to read, 3.75 to write and 15 for output, a million
	s.wants(t, (100*3+1000*.3+10*3.75+7*15)/1e6, "hermesd_model_cost_dollars_total", on...)
}

func TestAnUnknownPriceIsNoCost(t *testing.T) {
	r := prometheus.NewRegistry()
	p := metrics.New(r).Provider(llmtest.NewScripted(llmtest.Say("Here.")))
	for _, err := range p.Stream(t.Context(), &llm.Request{Model: "nobody-knows", Transcript: llm.NewTranscript(llm.UserText("hi"))}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if f := scrape(t, r)["hermesd_model_cost_dollars_total"]; f != nil {
		t.Errorf("%v", f)
	}
}

// TestLabelsStayFew shows that the number of series is limited and a scrape is valid
// for arbitrary label values.
func TestLabelsStayFew(t *testing.T) {
	r := prometheus.NewRegistry()
	m := metrics.New(r)
	for i := range 1000 {
		m.Observe(observe.ToolCalled{Tool: fmt.Sprintf("tool \xff\"\n%d", i)})
		m.Observe(observe.EventReceived{Platform: chat.Slack, Result: observe.Denied, Rule: fmt.Sprint(i)})
		m.Observe(observe.TurnStarted{Turn: fmt.Sprint(i), Kind: observe.Message})
		p := m.Provider(llmtest.NewScripted(llmtest.Say("Here.")))
		for _, err := range p.Stream(t.Context(), &llm.Request{Model: fmt.Sprint("m", i), Transcript: llm.NewTranscript(llm.UserText("hi"))}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	p := scrape(t, r)
	for name, most := range map[string]int{"hermesd_tool_calls_total": 257, "hermesd_messages_denied_total": 65, "hermesd_model_calls_total": 33 * 8} {
		if n := len(p[name].GetMetric()); n != most {
			t.Errorf("%s has %d series, want %d", name, n, most)
		}
	}
	p.wants(t, 1000-256, "hermesd_tool_calls_total", "tool", "other", "outcome", "ok")
}

// TestTheFirstOfItsKindIsSeen shows that series used in alerts exist with value zero
// from the start. Otherwise Prometheus would not see the first increase.
func TestTheFirstOfItsKindIsSeen(t *testing.T) {
	r := prometheus.NewRegistry()
	m := metrics.New(r)
	m.Watch(sources(nil, nil))
	for range m.Provider(llmtest.NewScripted(llmtest.Say("Here."))).Stream(t.Context(), &llm.Request{Model: "m", Transcript: llm.NewTranscript(llm.UserText("hi"))}) {
	}
	p := scrape(t, r)
	p.wants(t, 0, "hermesd_delivery_attempts_total", "platform", "telegram", "outcome", "dead_letter")
	p.wants(t, 0, "hermesd_messages_total", "platform", "telegram", "result", "store_failed")
	p.wants(t, 0, "hermesd_turns_total", "kind", "message", "result", "failed")
	p.wants(t, 0, "hermesd_cron_occurrences_total", "outcome", "missed")
	p.wants(t, 0, "hermesd_panics_total", "where", "in a turn")
	p.wants(t, 0, "hermesd_store_damaged_records_total")
	p.wants(t, 0, "hermesd_model_calls_total", "provider", "scripted", "model", "m", "outcome", "auth")
}

func TestTheLogIsCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	m := metrics.New(r)
	scrape(t, r).wants(t, 0, "hermesd_log_lines_total", "level", "error")
	l := m.Log(zap.NewExample()).Named("turn")
	l.Info("hello")
	l.Warn("careful")
	l.Error("panic in a turn", zap.Any("panic", "boom"))
	p := scrape(t, r)
	p.wants(t, 1, "hermesd_log_lines_total", "level", "warn")
	p.wants(t, 1, "hermesd_log_lines_total", "level", "error")
	p.wants(t, 1, "hermesd_panics_total", "where", "in a turn")
}

func TestMemoryProviderIsCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	m := metrics.New(r)
	m.MemoryCall(memory.Call{Kind: "recall", Result: "ok", Took: time.Second})
	m.MemoryCall(memory.Call{Kind: memory.TurnCall, Result: "late"})
	m.MemoryCall(memory.Call{Kind: memory.LeftOut, Result: "queue_full"})
	p := scrape(t, r)
	p.wants(t, 1, "hermesd_memory_requests_total", "call", "recall", "result", "ok")
	p.wants(t, 1, "hermesd_memory_recalls_total", "result", "late")
	p.wants(t, 1, "hermesd_memory_left_out_total", "reason", "queue_full")
	if n := len(p["hermesd_memory_requests_total"].GetMetric()); n != 1 {
		t.Errorf("%d kinds of calls", n)
	}
}

func sources(rows []outbox.Row, wrong error) metrics.Sources {
	live := 0
	for _, row := range rows {
		if !row.Terminal() {
			live++
		}
	}
	return metrics.Sources{
		Status: func() control.Status {
			return control.Status{
				Version: "1.2.3", Started: time.Unix(1000, 0), TurnsRunning: 3, TurnsQueued: 2, Paused: true, Breaks: map[string]int{"undeclared": 1, "hygiene": 4},
				Accounts: []accounts.Health{
					{Account: chat.Account{Platform: chat.Telegram}, Health: chat.Health{State: chat.Connected, LastContact: time.Unix(2000, 0)}},
					{Account: chat.Account{Platform: chat.Telegram, Name: "second"}, Health: chat.Health{State: chat.Failed}},
				},
				Store: store.Stats{Waiting: 5, Claimed: 3, Outbox: live, Dead: len(rows) - live, Commits: 10, Writes: 30, Bytes: 4096, Error: "disk full"},
				Cron:  schedule.Status{Jobs: 2, Stalled: true}, CallStats: control.CallStats{Missed: 77},
				Memory:                &memory.Status{Provider: "mem0", Up: true, Recall: memory.RecallStatus{LastOK: time.Unix(4000, 0)}, Queue: memory.QueueStatus{Waiting: 7, Aside: 8, Oldest: 9}},
				BackgroundCompactions: hygiene.Stats{Started: 4, Failed: 1, Adopted: 2, Discarded: 1, Waiting: 1},
			}
		},
		Outbox: func(context.Context) ([]outbox.Row, error) { return rows, wrong }, Prices: pricing.Builtin(),
		Config: func() (time.Time, bool, int) { return time.Unix(3000, 0), false, 2 },
	}
}

func TestWhatTheDaemonKnowsIsReadWhenSomebodyAsks(t *testing.T) {
	r := prometheus.NewRegistry()
	metrics.New(r).Watch(sources([]outbox.Row{{State: outbox.Uncertain}, {State: outbox.Queued}, {State: outbox.Queued}, {State: outbox.Dead}}, nil))
	p := scrape(t, r)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "hermesd_build_info", []string{"version", "1.2.3"}},
		{1000, "hermesd_start_timestamp_seconds", nil},
		{3, "hermesd_turns_running", nil},
		{2, "hermesd_turns_queued", nil},
		{1, "hermesd_paused", nil},
		{1, "hermesd_prefix_breaks_total", []string{"reason", "undeclared"}},
		{4, "hermesd_prefix_breaks_total", []string{"reason", "hygiene"}},
		{0, "hermesd_prefix_breaks_total", []string{"reason", "reload"}},
		{77, "hermesd_cache_missed_tokens_total", nil},
		{1, "hermesd_account_up", []string{"platform", "telegram", "account", ""}},
		{0, "hermesd_account_up", []string{"platform", "telegram", "account", "second"}},
		{2000, "hermesd_account_last_contact_timestamp_seconds", []string{"platform", "telegram", "account", ""}},
		{5, "hermesd_inbox_entries", []string{"state", "waiting"}},
		{3, "hermesd_outbox_rows", []string{"state", "undelivered"}},
		{1, "hermesd_outbox_rows", []string{"state", "dead_letter"}},
		{1, "hermesd_outbox_undelivered_rows", []string{"state", "uncertain"}},
		{2, "hermesd_outbox_undelivered_rows", []string{"state", "queued"}},
		{0, "hermesd_outbox_undelivered_rows", []string{"state", "known_not_sent"}},
		{30, "hermesd_store_operations_total", nil},
		{0, "hermesd_store_up", nil},
		{0, "hermesd_cron_up", nil},
		{2, "hermesd_background_compactions_total", []string{"outcome", "adopted"}},
		{1, "hermesd_memory_up", nil},
		{4000, "hermesd_memory_last_success_timestamp_seconds", []string{"call", "recall"}},
		{7, "hermesd_memory_queue_events", []string{"state", "waiting"}},
		{8, "hermesd_memory_queue_events", []string{"state", "aside"}},
		{9, "hermesd_memory_queue_oldest_seconds", nil},
		{3000, "hermesd_config_last_reload_timestamp_seconds", nil},
		{0, "hermesd_config_last_reload_successful", nil},
		{2, "hermesd_config_restart_pending", nil},
	} {
		p.wants(t, c.want, c.name, c.labels...)
	}
	if n := len(p["hermesd_account_last_contact_timestamp_seconds"].GetMetric()); n != 1 {
		t.Errorf("%d accounts have a last contact, want 1: the other never had any", n)
	}
}

// TestAnOutboxThatIsLongIsNotRead shows that a scrape does not make an outage worse.
func TestAnOutboxThatIsLongIsNotRead(t *testing.T) {
	for name, s := range map[string]metrics.Sources{
		"long":       sources(make([]outbox.Row, 1001), nil),
		"unreadable": sources(make([]outbox.Row, 1), errors.New("damaged")),
	} {
		r := prometheus.NewRegistry()
		metrics.New(r).Watch(s)
		p := scrape(t, r)
		if p["hermesd_outbox_undelivered_rows"] != nil || p["hermesd_outbox_rows"] == nil || p["hermesd_config_restart_pending"] == nil {
			t.Errorf("%s: %v", name, p["hermesd_outbox_undelivered_rows"])
		}
	}
}

func TestNobodyNeedsMetrics(t *testing.T) {
	var m *metrics.Metrics
	m.Observe(observe.ToolCalled{})
	m.Damaged()
	m.Committed(1, 1)
	m.Watch(metrics.Sources{})
	m.Log(zap.NewNop()).Error("panic in a tool")
	if p := llmtest.NewScripted(); m.Provider(p) != llm.Provider(p) {
		t.Error("a provider is wrapped for nothing")
	}
}

func BenchmarkATurnsEvents(b *testing.B) {
	m := metrics.New(prometheus.NewRegistry())
	now := time.Now()
	began := observe.TurnStarted{Turn: "t1", Kind: observe.Message, Platform: chat.Telegram, Accepted: now, At: now}
	for b.Loop() {
		m.Observe(observe.EventReceived{Platform: chat.Telegram, Result: observe.Accepted})
		m.Observe(began)
		m.Observe(observe.ToolCalled{Turn: "t1", Tool: "todo", Took: time.Second})
		m.Observe(observe.DeliveryAttempted{Turn: "t1", Platform: chat.Telegram, Role: "reply", State: "sent", Took: time.Second})
		m.Observe(observe.TurnEnded{TurnStarted: began, Result: observe.Replied, Took: time.Second})
	}
}
