package app_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector accepts traces over OTLP/HTTP.
type collector struct {
	mu    sync.Mutex // guards the fields below
	spans []*tracepb.Span
	wrong []string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var data tracepb.TracesData
	raw, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &data) != nil {
		c.wrong = append(c.wrong, r.Method+" "+r.URL.String())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// TestTraceCoversOneTurn runs a turn with a tool in a real daemon and reads what a
// collector receives.
func TestTraceCoversOneTurn(t *testing.T) {
	c := &collector{}
	s := httptest.NewServer(c)
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	w := newHarness(t, fault{config: "streaming:\n  enabled: false"})
	w.start()
	w.waitConnected()
	w.say("tool please")
	w.waitText("done: tool please")
	w.stop()
	if len(c.wrong) > 0 {
		t.Errorf("the collector did not understand %q", c.wrong)
	}
	var root *tracepb.Span
	children := map[string][]string{} // names of spans, by the name of their parent
	byID := map[string]*tracepb.Span{}
	for _, span := range c.spans {
		byID[string(span.SpanId)] = span
	}
	for _, span := range c.spans {
		if len(span.ParentSpanId) == 0 {
			root = span
			continue
		}
		parent := byID[string(span.ParentSpanId)]
		if parent == nil || string(parent.TraceId) != string(span.TraceId) {
			t.Fatalf("%s has no parent in its trace", span.Name)
		}
		if span.StartTimeUnixNano+1e6 < parent.StartTimeUnixNano {
			t.Errorf("%s begins before its %s", span.Name, parent.Name)
		}
		children[parent.Name] = append(children[parent.Name], span.Name)
	}
	for _, names := range children {
		slices.Sort(names)
	}
	same(t, "a message has", []string{"deliver", "turn", "wait"}, children["message"])
	same(t, "a turn has", []string{"chat claude-sonnet-4-5", "chat claude-sonnet-4-5", "execute_tool todo"}, children["turn"])
	if root == nil || root.Name != "message" {
		w.fatal("there is no message")
	}
	sum := sha256.Sum256([]byte(attribute(root, "hermesd.turn")))
	if attribute(root, "hermesd.result") != "replied" || hex.EncodeToString(root.TraceId) != hex.EncodeToString(sum[:16]) {
		t.Errorf("%v", root)
	}
	w.checkTracesAnonymous(c.spans)
}

func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// checkTracesAnonymous checks that traces contain no text, user or address of a
// message.
func (w *harness) checkTracesAnonymous(spans []*tracepb.Span) {
	w.Helper()
	for _, s := range spans {
		for _, never := range append(w.secrets(), "please", "a thing", "Ann", "agent:main", w.placeholders().Replace("$ANN")) {
			if strings.Contains(s.String(), never) {
				w.Errorf("the span %s tells of %q", s.Name, never)
			}
		}
	}
}

// TestTraceSettingInvalidDisablesTracing: the operator is informed.
func TestTraceSettingInvalidDisablesTracing(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	w.waitLog("cannot trace turns", "4318")
	w.askEcho("hello")
}
