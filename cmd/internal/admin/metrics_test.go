package admin_test

import (
	"net/http"
	"testing"

	"hermesd/cmd/internal/admin"
)

func TestMetricsComeAsTheyAre(t *testing.T) {
	const page = "# TYPE up gauge\nup 1\n"
	shown := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) })
	c := admin.Local(admin.NewHandler(admin.Options{Store: filled(t), Metrics: shown}))
	ends(t, c.Close)
	if text, err := c.Metrics(t.Context()); err != nil || text != page {
		t.Errorf("%q, %v", text, err)
	}
	none := admin.Local(admin.NewHandler(admin.Options{Store: filled(t)}))
	ends(t, none.Close)
	_, err := none.Metrics(t.Context())
	wantError(t, err, http.StatusServiceUnavailable, "hermesd run")
}
