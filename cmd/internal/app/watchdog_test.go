package app_test

import (
	"strings"
	"testing"
	"time"

	"hermesd/cmd/internal/app"
)

func TestWatchdogFailsIfReadyTurnsDoNotRun(t *testing.T) {
	t0 := time.Now()
	for _, tc := range []struct {
		name  string
		beats []app.Beat
		want  string
	}{
		{"nothing to do", []app.Beat{{0, 0, 0}, {0, 0, time.Hour}}, ""},
		{"busy for long", []app.Beat{{9, 64, 0}, {9, 64, time.Hour}}, ""},
		{"ready for a moment", []app.Beat{{1, 0, 0}, {1, 0, time.Minute}, {1, 1, 2 * time.Minute}, {1, 0, 9 * time.Minute}}, ""},
		{"ready for too long", []app.Beat{{2, 0, 0}, {2, 0, 6 * time.Minute}}, "turns have been queued for 6m0s and none is running: 2"},
	} {
		err := app.Beats(t0, tc.beats)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
