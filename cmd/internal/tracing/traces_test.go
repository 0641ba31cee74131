package tracing_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"hermesd/agent/llm"
	"hermesd/cmd/internal/tracing"
	"hermesd/gateway/chat"
	"hermesd/gateway/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A collector accepts traces over OTLP/HTTP.
type collector struct {
	*httptest.Server
	mu       sync.Mutex // guards the fields below
	spans    []*tracepb.Span
	resource map[string]string // attributes of the resource
	header   http.Header
	refuse   []int // status codes of the next responses
}

func newCollector(t *testing.T) *collector {
	c := &collector{resource: map[string]string{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refuse) > 0 {
		w.WriteHeader(c.refuse[0])
		c.refuse = c.refuse[1:]
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	var data tracepb.TracesData
	if err != nil || proto.Unmarshal(raw, &data) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "this is no OTLP", http.StatusBadRequest)
		return
	}
	c.header = r.Header
	for _, rs := range data.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// tree formats the spans, each below its parent, in the order of their start times.
func (c *collector) tree(t *testing.T) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.spans, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	var b strings.Builder
	shown := 0
	var show func(parent []byte, indent string)
	show = func(parent []byte, indent string) {
		for _, s := range c.spans {
			if string(s.ParentSpanId) != string(parent) {
				continue
			}
			shown++
			fmt.Fprintf(&b, "%s%s %v", indent, s.Name, time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano).Round(100*time.Millisecond))
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				b.WriteString(" !")
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, " (%s)", e.Name)
			}
			b.WriteString("\n")
			show(s.SpanId, indent+"  ")
		}
	}
	show(nil, "")
	if shown != len(c.spans) {
		t.Errorf("%d of %d spans have a place", shown, len(c.spans))
	}
	return b.String()
}

// env returns an environment that exports traces to c, with additional variables.
func (c *collector) env(more map[string]string) func(string) string {
	return func(name string) string {
		if v, ok := more[name]; ok {
			return v
		}
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL}[name]
	}
}

func tracer(t *testing.T, env func(string) string, log *zap.Logger) *tracing.Tracer {
	t.Helper()
	s, on, err := tracing.Read(env)
	if err != nil || !on {
		t.Fatalf("%v, %v", on, err)
	}
	tr, err := tracing.New(s, "1.2.3", log)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// playTurn plays a turn with a failed call, a tool and two attempts to deliver.
func playTurn(tr *tracing.Tracer, id string) {
	now := time.Now()
	began := observe.TurnStarted{Turn: id, Kind: observe.Message, Platform: chat.Slack, Accepted: now.Add(-5 * time.Second), At: now.Add(-4 * time.Second)}
	for _, e := range []observe.Event{
		began,
		observe.ModelRetried{Turn: id, Class: llm.Overloaded, Fallback: "other/model"},
		observe.ModelCalled{Turn: id, Provider: "anthropic", Model: "claude", Took: 2 * time.Second, Usage: llm.Usage{Input: 10, CacheRead: 90, Output: 5}, Stop: llm.CallTools},
		observe.ToolCalled{Turn: id, Tool: "todo", Took: time.Second, Failed: true},
		observe.Compacted{Turn: id, Engine: "lcm", Reason: "compression"},
		observe.DeliveryAttempted{Turn: id, Row: "o1", Platform: chat.Slack, Role: "reply", State: "known_not_sent", RateLimited: true},
		observe.DeliveryAttempted{Turn: id, Row: "o1", Platform: chat.Slack, Role: "reply", State: "sent", Attempt: 1, Took: 500 * time.Millisecond},
		observe.TurnEnded{TurnStarted: began, Result: observe.Replied, Took: 4 * time.Second},
		observe.EventReceived{Platform: chat.Slack}, observe.OccurrencesSkipped{}, observe.DeliveryAttempted{Role: "notice", State: "sent"}, // in no trace
	} {
		tr.Observe(e)
	}
}

func TestTurnIsOneTrace(t *testing.T) {
	c := newCollector(t)
	tr := tracer(t, c.env(map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20secret, x-other = b", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}), zap.NewNop())
	playTurn(tr, "t1")
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	want := `message 5s
  wait 1s
  turn 4s (model call failed) (compaction)
    chat claude 2s
    execute_tool todo 1s !
  deliver 500ms
`
	if d := cmp.Diff(want, c.tree(t)); d != "" {
		t.Error(d)
	}
	if c.header.Get("x-key") != "a secret" || c.header.Get("x-other") != "b" {
		t.Errorf("%v", c.header)
	}
	if c.resource["service.name"] != "hermesd" || c.resource["service.version"] != "1.2.3" {
		t.Errorf("%v", c.resource)
	}
	// printf t1 | sha256sum | cut -c-32
	if id := fmt.Sprintf("%x", c.spans[0].TraceId); id != "628b49d96dcde97a430dd4f597705899" {
		t.Errorf("the trace is %s", id)
	}
}

// TestInterruptedTurnIsOneTrace: a process crashes in a turn, the next one completes
// it, and the one after that delivers.
func TestInterruptedTurnIsOneTrace(t *testing.T) {
	c := newCollector(t)
	now := time.Now()
	began := observe.TurnStarted{Turn: "t1", Accepted: now.Add(-9 * time.Second), At: now.Add(-8 * time.Second)}
	again := began
	again.At, again.Resumed = now.Add(-4*time.Second), true
	for _, life := range [][]observe.Event{
		{began, observe.ModelCalled{Turn: "t1", Model: "claude"}, observe.TurnEnded{TurnStarted: began, Result: observe.Released, Took: time.Second}},
		{again, observe.TurnEnded{TurnStarted: again, Result: observe.Failed, Took: 3 * time.Second}},
		{observe.DeliveryAttempted{Turn: "t1", State: "dead"}},
	} {
		tr := tracer(t, c.env(nil), zap.NewNop())
		for _, e := range life {
			tr.Observe(e)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := `message 8s !
  wait 1s
  turn 1s
    chat claude 0s
  turn 3s !
  deliver 0s !
`
	if d := cmp.Diff(want, c.tree(t)); d != "" {
		t.Error(d)
	}
}

func TestSamplerFromEnvironment(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	t.Setenv("OTEL_SERVICE_NAME", "my-bot")
	c := newCollector(t)
	tr := tracer(t, c.env(nil), zap.NewNop())
	playTurn(tr, "t1")
	tr.Observe(observe.DeliveryAttempted{Turn: "t0", State: "sent"}) // of an earlier process
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(c.spans); n != 0 {
		t.Errorf("%d spans", n)
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	tr = tracer(t, c.env(nil), zap.NewNop())
	playTurn(tr, "t1")
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if len(c.spans) != 6 || c.resource["service.name"] != "my-bot" {
		t.Errorf("%d spans of %v", len(c.spans), c.resource)
	}
}

func TestExportRetriesAndReportsLoss(t *testing.T) {
	c := newCollector(t)
	c.refuse = []int{503}
	core, logs := observer.New(zap.InfoLevel)
	tr := tracer(t, c.env(nil), zap.New(core))
	playTurn(tr, "t1")
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if len(c.spans) != 6 || logs.Len() != 0 {
		t.Errorf("after a 503: %d spans, %v", len(c.spans), logs.All())
	}
	c.refuse = []int{401}
	tr = tracer(t, c.env(nil), zap.New(core))
	playTurn(tr, "t2")
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if l := logs.TakeAll(); len(l) != 1 || l[0].Level != zap.WarnLevel || !strings.Contains(fmt.Sprint(l[0].ContextMap()), "401") {
		t.Errorf("after a 401: %v", l)
	}
}

// TestHungCollectorDelaysNothing: neither the pipeline nor the stop of the daemon
// waits.
func TestHungCollectorDelaysNothing(t *testing.T) {
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(hold)
	core, logs := observer.New(zap.InfoLevel)
	tr := tracer(t, func(name string) string { return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL}[name] }, zap.New(core))
	const patience = 2 * time.Minute
	began := time.Now()
	for i := range 5000 { // more than the queue holds
		playTurn(tr, fmt.Sprint("t", i))
	}
	if d := time.Since(began); d > patience { // otherwise hours
		t.Errorf("the turns waited %v", d)
	}
	began = time.Now()
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > patience { // otherwise 30 s for each of ten batches
		t.Errorf("the end took %v", d)
	}
	if logs.Len() == 0 {
		t.Error("nobody is told that traces are lost")
	}
}

func TestReadSettings(t *testing.T) {
	const base = "OTEL_EXPORTER_OTLP_ENDPOINT"
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string // endpoint, "" for off, or a part of the error
	}{
		"nothing":            {nil, ""},
		"an endpoint":        {map[string]string{base: "http://c:4318"}, "http://c:4318/v1/traces"},
		"with a path":        {map[string]string{base: "https://c/otlp/"}, "https://c/otlp/v1/traces"},
		"one for traces":     {map[string]string{base: "http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x"}, "http://t/x"},
		"only the exporter":  {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"},
		"none":               {map[string]string{base: "http://c", "OTEL_TRACES_EXPORTER": "none"}, ""},
		"disabled":           {map[string]string{base: "http://c", "OTEL_SDK_DISABLED": "TRUE"}, ""},
		"another exporter":   {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "otlp and none"},
		"gRPC":               {map[string]string{base: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "4318"},
		"not a URL":          {map[string]string{base: "c:4318"}, "not an http"},
		"broken headers":     {map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "secret-key"}, "name=value"},
		"unknown packing":    {map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "gzip and none"},
		"a wrong timeout":    {map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "10s"}, "milliseconds"},
		"no such authority":  {map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere.pem"}, "CERTIFICATE"},
		"an empty authority": {map[string]string{base: "http://c", "OTEL_EXPORTER_OTLP_CERTIFICATE": empty}, "holds no certificate"},
	} {
		s, on, err := tracing.Read(func(name string) string { return c.env[name] })
		if err == nil && on {
			var tr *tracing.Tracer
			if tr, err = tracing.New(s, "1", zap.NewNop()); err == nil {
				_ = tr.Close()
			}
		}
		got := s.Endpoint
		if err != nil {
			got = err.Error()
		}
		if on != (got != "" && err == nil) && err == nil || (c.want == "") != (got == "") || !strings.Contains(got, c.want) || strings.Contains(got, "secret-key") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	s := tracing.Settings{Endpoint: "https://me:hunter2@c/v1/traces"}
	if strings.Contains(s.Shown(), "hunter2") {
		t.Error(s.Shown())
	}
}

func TestNilTracer(t *testing.T) {
	var tr *tracing.Tracer
	tr.Observe(observe.TurnEnded{})
}

func BenchmarkTurnEvents(b *testing.B) {
	c := &collector{resource: map[string]string{}}
	c.Server = httptest.NewServer(c)
	defer c.Close()
	s, _, err := tracing.Read(c.env(nil))
	if err != nil {
		b.Fatal(err)
	}
	tr, err := tracing.New(s, "1", zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		playTurn(tr, "t1")
	}
	if err := tr.Close(); err != nil {
		b.Fatal(err)
	}
}
