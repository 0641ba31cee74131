package app

import (
	"os"

	"go.uber.org/zap"

	"hermesd/cmd/internal/tracing"
	"hermesd/gateway/observe"
	"hermesd/internal/secret"
)

// Observe passes an event to the metrics and the tracer.
func (m telemetry) Observe(e observe.Event) {
	m.Metrics.Observe(e)
	m.tracer.Observe(e)
}

// startTracing exports traces of turns if the environment configures it. An invalid
// setting disables tracing and has no other effect.
func (a *App) startTracing() {
	s, on, err := tracing.Read(os.Getenv)
	if on {
		for _, values := range s.Header {
			for _, v := range values {
				a.opts.Report.Secrets.Add(secret.Value(v))
			}
		}
		a.telemetry.tracer, err = tracing.New(s, a.opts.Version, a.opts.Log.Named("traces"))
	}
	switch {
	case err != nil:
		a.opts.Log.Error("cannot trace turns", zap.Error(err))
		a.opts.Say("⚠️ turns are not traced: " + err.Error())
	case on:
		a.cleanups = append(a.cleanups, a.telemetry.tracer.Close)
		a.opts.Log.Info("tracing turns", zap.String("endpoint", s.Shown()))
	}
}
