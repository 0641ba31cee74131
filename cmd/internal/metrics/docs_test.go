package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"hermesd/cmd/internal/metrics"
	"hermesd/gateway/chat"
	"hermesd/gateway/observe"
)

var update = flag.Bool("update", false, "write the generated part of docs/metrics.md")

// list returns the list of all metrics.
func list() string {
	var b strings.Builder
	for _, d := range metrics.Definitions() {
		name := d.Name
		if len(d.Labels) > 0 {
			name += "{" + strings.Join(d.Labels, ",") + "}"
		}
		fmt.Fprintf(&b, "- `%s`: %s\n", name, d.Help)
	}
	return b.String()
}

const (
	opening = "<!-- made by go test ./cmd/internal/metrics -run Docs -update -->\n"
	closing = "<!-- end -->\n"
)

func TestTheDocsListTheMetrics(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "metrics.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), opening)
	_, tail, ended := strings.Cut(rest, closing)
	if !ok || !ended {
		t.Fatalf("%s has no place for the metrics", page)
	}
	want := head + opening + list() + closing + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("%s is not what the code says (go test ./cmd/internal/metrics -run Docs -update):\n%s", page, diff)
	}
	rules, err := os.ReadFile(filepath.Join(filepath.Dir(page), "examples", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`hermesd_[a-z_]+`).FindAllString(head+tail+string(rules), -1) {
		plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if !slices.ContainsFunc(metrics.Definitions(), func(d metrics.Definition) bool { return d.Name == plain }) {
			t.Errorf("%s or its rules name %s, which does not exist", page, name)
		}
	}
}

// TestDefinitionsAreListed reads the source: a metric without a series is not in a scrape.
func TestDefinitionsAreListed(t *testing.T) {
	src, err := os.ReadFile("definitions.go")
	if err != nil {
		t.Fatal(err)
	}
	defined := regexp.MustCompile(`Definition\{"(\w+)"`).FindAllSubmatch(src, -1)
	for _, m := range defined {
		if !slices.ContainsFunc(metrics.Definitions(), func(d metrics.Definition) bool { return d.Name == string(m[1]) }) {
			t.Errorf("%s is not in the list of export_test.go", m[1])
		}
	}
	if len(defined) != len(metrics.Definitions()) {
		t.Errorf("definitions.go has %d metrics, the list of export_test.go %d", len(defined), len(metrics.Definitions()))
	}
}

// TestNothingIsCountedThatTheDocsDoNotList also checks the naming rules of
// Prometheus.
func TestNothingIsCountedThatTheDocsDoNotList(t *testing.T) {
	known := map[string]bool{}
	for _, d := range metrics.Definitions() {
		if known[d.Name] {
			t.Errorf("%s is defined twice", d.Name)
		}
		known[d.Name] = true
		if d.Help == "" || strings.HasSuffix(d.Name, "_total") != (d.Kind == metrics.Counter) || (d.Buckets != nil) != (d.Kind == metrics.Histogram) {
			t.Errorf("%+v", d)
		}
		if d.Kind == metrics.Histogram && !strings.HasSuffix(d.Name, "_seconds") {
			t.Errorf("%s has no unit", d.Name)
		}
	}
	r := prometheus.NewRegistry()
	m := metrics.New(r)
	m.Watch(sources(nil, nil))
	m.Observe(observe.TurnStarted{Kind: observe.Message})
	m.Observe(observe.EventReceived{Platform: chat.Slack, Result: observe.Denied})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "hermesd_") {
			seen[f.GetName()] = true
			if !known[f.GetName()] {
				t.Errorf("%s is in no definition", f.GetName())
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d are seen", len(seen))
	}
}
