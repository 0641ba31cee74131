package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	if h.opts.Metrics == nil {
		h.fail(w, &Error{http.StatusServiceUnavailable, noDaemon})
		return
	}
	h.opts.Metrics.ServeHTTP(w, r)
}

// Metrics returns the metrics of the daemon in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hermesd/metrics", http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask the daemon: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the daemon: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("ask the daemon: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", refusal(resp.StatusCode, raw)
	}
	return string(raw), nil
}
