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

// A telemetry is what the daemon counts of itself, the page that shows it, and the
// traces of turns.
type telemetry struct {
	*metrics.Metrics
	page   http.Handler
	tracer *tracing.Tracer // nil: nobody wants them
}

func newTelemetry() telemetry {
	r := prometheus.NewRegistry()
	return telemetry{Metrics: metrics.New(r), page: metrics.Handler(r)}
}

// scrapeKeyFile holds the key that opens the metrics and nothing else, in the home.
const scrapeKeyFile = "metrics.key"

// scrapes lets whoever has the key of the metrics read them over the HTTP API.
func (a *App) scrapes(o httpapi.Options) (httpapi.Options, error) {
	key, created, err := httpapi.LoadKey(a.home.Path(scrapeKeyFile))
	if err != nil {
		return o, &chat.ConfigError{Platform: chat.HTTP, Reason: err.Error()}
	}
	if created {
		a.opts.Say("🔑 The key of the metrics is in " + a.home.Path(scrapeKeyFile))
	}
	a.opts.Report.Secrets.Add(key)
	o.Metrics, o.MetricsKey = a.telemetry.page, key
	return o, nil
}

// measured is what the meter reads of the daemon when somebody asks.
func (a *App) measured() metrics.Sources {
	return metrics.Sources{
		Status: a.gateway.Status, Prices: a.opts.Report.Prices,
		Outbox: func(ctx context.Context) ([]outbox.Row, error) { return a.store.Outbox(ctx, false) },
		Config: func() (read time.Time, ok bool, waiting int) {
			s := a.configState()
			return s.Read, s.Problem == "", len(s.PendingRestart)
		},
	}
}
