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
			c, report, err := config.Load(config.Options{Home: t.TempDir(), Env: func(string) (string, bool) { return "", false }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if when.beforeNew {
				stop()
			}
			a, err := app.New(ctx, app.Options{Config: c, Report: report, Home: report.Home, Version: "test", Log: zap.NewNop()})
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
