package catalog_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/llm/catalog"
	"hermesd/internal/sim/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContextLengthByService(t *testing.T) {
	s, err := llm.Start(llm.Options{Keys: []string{"good"}, Models: []string{"a", "big", "quiet"}, Windows: map[string]int{"big": 262_144, "a": 8192}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, c := range []struct {
		q    catalog.Query
		want int
		says string
	}{
		{catalog.Query{Provider: "custom", Model: "big", BaseURL: s.URL + "/v1", Key: "good"}, 262_144, ""},
		{catalog.Query{Provider: "openrouter", Model: "a", BaseURL: s.URL + "/v1/", Key: "good"}, 8192, ""},
		{catalog.Query{Provider: "anthropic", Model: "big", BaseURL: s.URL, Key: "good"}, 262_144, ""},
		{catalog.Query{Provider: "anthropic", Model: "big", BaseURL: s.URL + "/v1", Key: "good"}, 262_144, ""},
		{catalog.Query{Provider: "ollama", Model: "big", BaseURL: s.URL + "/v1"}, 262_144, ""},
		{catalog.Query{Provider: "custom", Model: "quiet", BaseURL: s.URL + "/v1", Key: "good"}, 0, "no context length reported"},
		{catalog.Query{Provider: "custom", Model: "other", BaseURL: s.URL + "/v1", Key: "good"}, 0, "no context length reported"},
		{catalog.Query{Provider: "anthropic", Model: "other", BaseURL: s.URL, Key: "good"}, 0, "unexpected status 404"},
		{catalog.Query{Provider: "ollama", Model: "other", BaseURL: s.URL + "/v1"}, 0, "unexpected status 404"},
		{catalog.Query{Provider: "custom", Model: "big", BaseURL: s.URL + "/v1", Key: "bad-key"}, 0, "unexpected status 401"},
		{catalog.Query{Provider: "custom", Model: "big", BaseURL: "http://127.0.0.1:1/v1", Key: "bad-key"}, 0, "send request"},
		{catalog.Query{Provider: "custom", Model: "big", BaseURL: "http://a b"}, 0, "invalid base URL"},
	} {
		n, err := catalog.ContextLength(t.Context(), c.q)
		if n != c.want || (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "bad-key")) {
			t.Errorf("%+v: %d, %v", c.q, n, err)
		}
	}
}

// TestContextLengthFormats uses the responses of servers other than the simulator.
func TestContextLengthFormats(t *testing.T) {
	for body, want := range map[string]int{
		`{"data":[{"id":"x"},{"id":"m","max_model_len":32768}]}`:                                 32_768,  // vLLM
		`{"object":"list","data":[{"id":"m","meta":{"n_ctx_train":131072}}]}`:                    131_072, // llama.cpp
		`{"data":[{"id":"m","context_length":200000,"top_provider":{"context_length":131072}}]}`: 131_072, // OpenRouter
		`{"models":[{"name":"m"}],"data":[{"id":"m","max_context_length":"65536"}]}`:             65_536,
		`{"data":[{"id":"m:latest","context_window":16384}]}`:                                    16_384,
		`{"data":[{"id":"m","context_length":-5}]}`:                                              0,
		`{"data":[{"id":"m","context_length":null,"n_ctx":true}]}`:                               0,
		`{"data":{}}`:                          0,
		`[]`:                                   0,
		`{}`:                                   0,
		`<html>`:                               0,
		``:                                     0,
		`{"data":[{"id":"m","context_length":`: 0,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		n, err := catalog.ContextLength(t.Context(), catalog.Query{Provider: "custom", Model: "m", BaseURL: s.URL})
		s.Close()
		if n != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d, %v", body, n, err)
		}
	}
}

func TestContextLengthPrefersOllamaNumCtx(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"parameters":"stop \"x\"\nnum_ctx      24576\n","model_info":{"llama.context_length":131072}}`))
	}))
	defer s.Close()
	if n, err := catalog.ContextLength(t.Context(), catalog.Query{Provider: "ollama", Model: "m", BaseURL: s.URL + "/v1"}); n != 24_576 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestContextLengthIgnoresRedirectsAndTimesOut(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the key went elsewhere") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if n, err := catalog.ContextLength(t.Context(), catalog.Query{Provider: "custom", Model: "m", BaseURL: s.URL, Key: "k"}); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	if _, err := catalog.ContextLength(ctx, catalog.Query{Provider: "custom", Model: "m", BaseURL: slow.URL}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
