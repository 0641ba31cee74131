package safehttp_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/url"
	"testing"

	"hermesd/internal/safehttp"
)

// fetch sends a GET request to a server of the test.
func fetch(t *testing.T, address string) *http.Response {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client(t, safehttp.Options{Allow: []string{u.Host}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// zeros returns n zero bytes, compressed.
func zeros(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
