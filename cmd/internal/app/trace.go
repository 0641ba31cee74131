package app

import (
	"os"

	"go.uber.org/zap"

	"hermesd/cmd/internal/tracing"
	"hermesd/gateway/observe"
	"hermesd/internal/secret"
)

// Observe tells the counters and the traces what happens on the road.
func (m telemetry) Observe(e observe.Event) {
	m.Metrics.Observe(e)
	m.tracer.Observe(e)
}

// trace has turns drawn as traces if the environment asks for it. What is wrong
// there costs traces, and nothing else.
func (a *App) trace() {
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
		a.opts.Log.Error("turns are not traced", zap.Error(err))
		a.opts.Say("⚠️ turns are not traced: " + err.Error())
	case on:
		a.undo = append(a.undo, a.telemetry.tracer.Close)
		a.opts.Log.Info("turns are traced", zap.String("endpoint", s.Shown()))
	}
}
