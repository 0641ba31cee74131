package app_test

import (
	"context"
	"testing"

	"go.uber.org/zap"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
)

// A signal may come at any moment of a start.
func TestAStopDuringTheStartIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]struct{ beforeNew, beforeRun bool }{
		"before New": {beforeNew: true},
		"before Run": {beforeRun: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			load := func() (*config.Config, config.Report, error) {
				return config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
			}
			c, report, err := load()
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if when.beforeNew {
				stop()
			}
			a, err := app.New(ctx, app.Options{
				Config: c, Report: report, Home: report.Home, Load: load, Level: func(string) {}, Version: "test", Log: zap.NewNop(), Say: func(string) {},
			})
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			if when.beforeRun {
				stop()
			}
			if err := a.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}
