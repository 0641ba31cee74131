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
	s, err := llm.Start(llm.Options{Keys: []string{"good"}, Models: []string{"a", "big", "quiet"}, Windows: map[string]int{"big": 262_144, "a": 8192}, NumCtx: map[string]int{"a": 32_768}, OllamaContext: 24_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, c := range []struct {
		q    catalog.Query
		want int
		says string
	}{
		{catalog.Query{API: "openai", Model: "big", BaseURL: s.URL + "/v1", Key: "good"}, 262_144, ""},
		{catalog.Query{API: "openai", Model: "a", BaseURL: s.URL + "/v1/", Key: "good"}, 8192, ""},
		{catalog.Query{API: "anthropic", Model: "big", BaseURL: s.URL, Key: "good"}, 262_144, ""},
		{catalog.Query{API: "anthropic", Model: "big", BaseURL: s.URL + "/v1", Key: "good"}, 262_144, ""},
		{catalog.Query{API: "ollama", Model: "big", BaseURL: s.URL + "/v1"}, 24_000, ""},
		{catalog.Query{API: "ollama", Model: "a", BaseURL: s.URL + "/v1"}, 8192, ""}, // num_ctx is more than the model can
		{catalog.Query{API: "openai", Model: "quiet", BaseURL: s.URL + "/v1", Key: "good"}, 0, "no context length reported"},
		{catalog.Query{API: "openai", Model: "other", BaseURL: s.URL + "/v1", Key: "good"}, 0, "no context length reported"},
		{catalog.Query{API: "anthropic", Model: "other", BaseURL: s.URL, Key: "good"}, 0, "unexpected status 404"},
		{catalog.Query{API: "ollama", Model: "other", BaseURL: s.URL + "/v1"}, 0, "unexpected status 404"},
		{catalog.Query{API: "openai", Model: "big", BaseURL: s.URL + "/v1", Key: "bad-key"}, 0, "unexpected status 401"},
		{catalog.Query{API: "openai", Model: "big", BaseURL: "http://127.0.0.1:1/v1", Key: "bad-key"}, 0, "send request"},
		{catalog.Query{API: "openai", Model: "big", BaseURL: "http://a b"}, 0, "invalid base URL"},
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
		n, err := catalog.ContextLength(t.Context(), catalog.Query{API: "openai", Model: "m", BaseURL: s.URL})
		s.Close()
		if n != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d, %v", body, n, err)
		}
	}
}

// TestContextLengthOfOllama has the answers of versions and models of Ollama.
func TestContextLengthOfOllama(t *testing.T) {
	const info = `"model_info":{"general.architecture":"llama","llama.context_length":131072}`
	loadedFrom := func(n string) string {
		return `{"models":[{"name":"other:latest","context_length":9},{"name":"m:latest","context_length":` + n + `}]}`
	}
	for name, c := range map[string]struct {
		show, before, after string // /api/ps before and after the model is loaded
		want, loads         int
	}{
		"num_ctx in its file":  {`{"parameters":"stop \"x\"\nnum_ctx      24576\n",` + info + `}`, `{}`, `{}`, 24_576, 0},
		"loaded":               {`{` + info + `}`, loadedFrom("16384"), ``, 16_384, 0},
		"not loaded":           {`{` + info + `}`, `{"models":[]}`, loadedFrom("32768"), 32_768, 1},
		"does not tell":        {`{` + info + `}`, `{"models":[]}`, `{"models":[{"name":"m:latest"}]}`, 4096, 1},
		"no such call":         {`{` + info + `}`, ``, ``, 4096, 0},
		"a tiny model":         {`{"model_info":{"bert.context_length":2048}}`, ``, ``, 2048, 0},
		"a model in the cloud": {`{"remote_host":"https://ollama.com:443",` + info + `}`, ``, ``, 131_072, 0},
	} {
		t.Run(name, func(t *testing.T) {
			loads := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := map[string]string{"/api/show": c.show, "/api/ps": c.before, "/api/generate": `{"done":true}`}[r.URL.Path]
				switch r.URL.Path {
				case "/api/generate":
					loads++
				case "/api/ps":
					if loads > 0 {
						body = c.after
					}
				}
				if body == "" {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write([]byte(body))
			}))
			defer s.Close()
			n, err := catalog.ContextLength(t.Context(), catalog.Query{API: "ollama", Model: "m", BaseURL: s.URL + "/v1"})
			if n != c.want || err != nil || loads != c.loads {
				t.Errorf("%d, %v, loaded %d times", n, err, loads)
			}
		})
	}
}

func TestContextLengthIgnoresRedirectsAndTimesOut(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the key went elsewhere") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if n, err := catalog.ContextLength(t.Context(), catalog.Query{API: "openai", Model: "m", BaseURL: s.URL, Key: "k"}); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	if _, err := catalog.ContextLength(ctx, catalog.Query{API: "openai", Model: "m", BaseURL: slow.URL}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
