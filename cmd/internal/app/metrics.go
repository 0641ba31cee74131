package app

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hermesd/adapters/httpapi"
	"hermesd/cmd/internal/metrics"
	"hermesd/cmd/internal/tracing"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// telemetry holds the metrics of the daemon, the page that serves them, and the
// tracer of turns.
type telemetry struct {
	*metrics.Metrics
	metricsPage http.Handler
	tracer      *tracing.Tracer // nil if tracing is off
}

func newTelemetry() telemetry {
	r := prometheus.NewRegistry()
	return telemetry{Metrics: metrics.New(r), metricsPage: metrics.Handler(r)}
}

// scrapeKeyFile is the file in the home directory with the key that grants access to
// the metrics and nothing else.
const scrapeKeyFile = "metrics.key"

// addMetricsKey adds the metrics page and its key to the options of the HTTP API.
func (a *App) addMetricsKey(o httpapi.Options) (httpapi.Options, error) {
	key, created, err := httpapi.LoadKey(a.home.Path(scrapeKeyFile))
	if err != nil {
		return o, &chat.ConfigError{Platform: chat.HTTP, Reason: err.Error()}
	}
	if created {
		a.opts.Say("🔑 The key of the metrics is in " + a.home.Path(scrapeKeyFile))
	}
	a.opts.Report.Secrets.Add(key)
	o.Metrics, o.MetricsKey = a.telemetry.metricsPage, key
	return o, nil
}

// metricSources returns what the metrics read from the daemon at each scrape.
func (a *App) metricSources() metrics.Sources {
	rows, reload := a.store, &a.reload
	return metrics.Sources{
		Status: a.pipeline.Control().Status, Prices: a.opts.Report.Prices,
		Outbox: func(ctx context.Context) ([]outbox.Row, error) {
			list, _, err := rows.Outbox(ctx, outbox.Query{})
			return list, err
		},
		Config: func() (read time.Time, ok bool, waiting int) {
			s := reload.current()
			return s.Read, s.Problem == "", len(s.PendingRestart)
		},
	}
}
