package app_test

import (
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/internal/sim/telegram"
)

// scrape scrapes the daemon as Prometheus does.
func (w *harness) scrape() map[string]*dto.MetricFamily {
	w.Helper()
	key, err := os.ReadFile(w.path("metrics.key"))
	if err != nil {
		w.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.ctx, http.MethodGet, "http://"+w.web.address+"/metrics", http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	resp, err := w.web.client.Do(r)
	if err != nil {
		w.fatal(err.Error())
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		w.fatal("the metrics answer " + resp.Status)
	}
	return w.parseMetrics(resp.Body)
}

func (w *harness) parseMetrics(r io.Reader) map[string]*dto.MetricFamily {
	w.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	f, err := p.TextToMetricFamilies(r)
	if err != nil {
		w.fatal(err.Error())
	}
	return f
}

// metricSum returns the sum of all series of a metric with those labels: the value of
// counters and gauges, the number of observations of histograms.
func metricSum(fs map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	sum := 0.0
	for _, m := range fs[name].GetMetric() {
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == labels[i] && l.GetValue() == labels[i+1] })
		}
		if fits {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// TestMetricsMatchActivity runs real turns in a daemon and reads its metrics as
// Prometheus does.
func TestMetricsMatchActivity(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{on: []chat.Platform{chat.Telegram, chat.HTTP}})
	w.start()
	w.waitConnected()
	w.askEcho("hello")
	w.say("tool please")
	w.waitText("done: tool please")
	w.say("/help")
	w.waitFor("the help is seen", func() bool { return len(w.visibleTexts(w.chat)) >= 3 })
	eve := w.tg.AddUser(telegram.Person{FirstName: "Eve"})
	eve.Chat(w.bot).Say(eve, "let me in")
	w.waitConfirmed()
	w.web.say("over HTTP")
	var f map[string]*dto.MetricFamily
	counted := func() bool { // a delivery is counted after it is visible
		f = w.scrape()
		return metricSum(f, "hermesd_delivery_latency_seconds") >= 4 && metricSum(f, "hermesd_turns_total") >= 4
	}
	if err := w.web.changes(w.ctx, counted); err != nil {
		w.fatal("not all is counted")
	}
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{3, "hermesd_messages_total", []string{"platform", "telegram", "result", "accepted"}},
		{1, "hermesd_messages_total", []string{"platform", "http", "result", "accepted"}},
		{3, "hermesd_turns_total", []string{"kind", "message", "result", "replied"}},
		{1, "hermesd_turns_total", []string{"kind", "command", "result", "replied"}},
		{4, "hermesd_turn_duration_seconds", nil},
		{4, "hermesd_turn_wait_seconds", nil},
		{0, "hermesd_turns_running", nil},
		{3, "hermesd_delivery_latency_seconds", []string{"platform", "telegram"}},
		{1, "hermesd_delivery_latency_seconds", []string{"platform", "http"}},
		{0, "hermesd_outbox_rows", nil},
		{4, "hermesd_model_calls_total", []string{"provider", "anthropic", "model", "claude-sonnet-4-5", "outcome", "ok"}},
		{4, "hermesd_model_call_duration_seconds", nil},
		{1, "hermesd_tool_calls_total", []string{"tool", "todo", "outcome", "ok"}},
		{0, "hermesd_prefix_breaks_total", []string{"reason", "undeclared"}},
		{2, "hermesd_prefix_breaks_total", []string{"reason", "new_session"}},
		{1, "hermesd_account_up", []string{"platform", "telegram"}},
		{1, "hermesd_store_up", nil},
		{1, "hermesd_cron_up", nil},
		{0, "hermesd_store_damaged_records_total", nil},
		{0, "hermesd_panics_total", nil},
		{1, "hermesd_build_info", []string{"version", "test"}},
	} {
		if got := metricSum(f, c.name, c.labels...); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	for _, name := range []string{"hermesd_model_cost_dollars_total", "hermesd_model_tokens_total", "hermesd_store_bytes", "hermesd_store_commits_total", "hermesd_store_commit_duration_seconds", "hermesd_store_written_bytes_total", "process_resident_memory_bytes", "go_goroutines"} {
		if metricSum(f, name) <= 0 {
			t.Errorf("%s is %v", name, metricSum(f, name))
		}
	}
	if n := metricSum(f, "hermesd_messages_total", "platform", "telegram", "result", "denied"); n < 1 || metricSum(f, "hermesd_messages_denied_total") != n {
		t.Errorf("%v denied, by rules %v", n, metricSum(f, "hermesd_messages_denied_total"))
	}
	w.checkSocketMetrics(f)
	w.checkMetricsAnonymous(f)
}

func TestMetricsCountSubAgentTools(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{on: []chat.Platform{chat.Telegram, chat.HTTP}})
	w.start()
	w.waitConnected()
	w.say(use("delegate_task", `{"goal":"tool please"}`))
	w.waitText("1 tool calls)")
	f := w.scrape()
	for name, want := range map[string]float64{"todo": 1, "delegate_task": 1} {
		if got := metricSum(f, "hermesd_tool_calls_total", "tool", name, "outcome", "ok"); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is counted %v times", name, got)
		}
	}
}

// checkSocketMetrics compares the output of `hermesd metrics` with what Prometheus
// reads.
func (w *harness) checkSocketMetrics(f map[string]*dto.MetricFamily) {
	w.Helper()
	c, err := admin.Dial(w.ctx, w.home)
	if err != nil {
		w.Fatal(err)
	}
	text, err := c.Metrics(w.ctx)
	if err := c.Close(w.ctx); err != nil {
		w.Error(err)
	}
	if err != nil {
		w.Fatal(err)
	}
	for name := range w.parseMetrics(strings.NewReader(text)) {
		if f[name] == nil {
			w.Errorf("%s stands in one of both only", name)
		}
	}
}

// checkMetricsAnonymous checks that no label contains an ID of a user, a chat or a
// conversation, or the text of a message.
func (w *harness) checkMetricsAnonymous(f map[string]*dto.MetricFamily) {
	w.Helper()
	ann, secrets := w.placeholders().Replace("$ANN"), append(w.secrets(), "hello", "Ann", "agent:main")
	for name, family := range f {
		for _, m := range family.GetMetric() {
			for _, l := range m.Label {
				for _, s := range append(secrets, ann) {
					if strings.Contains(l.GetValue(), s) {
						w.Errorf("%s{%s=%q} tells of %q", name, l.GetName(), l.GetValue(), s)
					}
				}
			}
		}
	}
}
