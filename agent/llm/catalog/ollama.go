package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// OllamaDefault is the context length that Ollama gives a model if neither the model's file
// (num_ctx) nor the server's environment (OLLAMA_CONTEXT_LENGTH) says otherwise and it does not
// tell what it does. Newer versions give more on machines with much video memory.
const OllamaDefault = 4096

// queryOllama returns the context length with which Ollama runs a model for requests to its
// OpenAI API, which take no num_ctx: that of the loaded model (/api/ps). A model that is not
// loaded is, as the first request would. What does not fit is cut off without an error, so the
// maximum of the model (/api/show) counts only for models that run elsewhere.
func queryOllama(ctx context.Context, base string, q Query) (int, error) {
	m, err := showOllama(ctx, base, q)
	switch {
	case err != nil:
		return 0, err
	case m.remote:
		return checkReported(m.longest, nil)
	case m.numCtx > 0:
		return m.atMost(m.numCtx), nil
	}
	n, err := loadedOllama(ctx, base, q)
	if err == nil && n == 0 {
		if err = loadOllama(ctx, base, q); err == nil {
			n, err = loadedOllama(ctx, base, q)
		}
	}
	if ctx.Err() != nil {
		return 0, err
	}
	if err != nil || n == 0 { // a version that does not tell
		return m.atMost(OllamaDefault), nil
	}
	return n, nil
}

type ollamaModel struct {
	longest int // context length of the model; 0 if not reported
	numCtx  int // num_ctx of its file; 0 if not set
	remote  bool
}

func (m ollamaModel) atMost(n int) int {
	if m.longest > 0 {
		return min(n, m.longest)
	}
	return n
}

func showOllama(ctx context.Context, base string, q Query) (out ollamaModel, err error) {
	body, err := json.Marshal(map[string]string{"model": q.Model})
	if err != nil {
		return out, fmt.Errorf("encode query: %w", err)
	}
	err = fetch(ctx, base+"/api/show", bearer(q), body, func(d *json.Decoder) error {
		var m struct {
			Parameters string         `json:"parameters"`
			Info       map[string]any `json:"model_info"`
			RemoteHost string         `json:"remote_host"`
		}
		if err := d.Decode(&m); err != nil {
			return err
		}
		for line := range strings.Lines(m.Parameters) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "num_ctx" {
				out.numCtx, _ = strconv.Atoi(f[1])
			}
		}
		for k, v := range m.Info {
			if strings.HasSuffix(k, ".context_length") {
				out.longest = number(v)
			}
		}
		out.remote = m.RemoteHost != ""
		return nil
	})
	return out, err
}

// loadedOllama returns the context length of the model if it is loaded, and 0 if it is not or
// the version does not tell.
func loadedOllama(ctx context.Context, base string, q Query) (n int, err error) {
	err = fetch(ctx, base+"/api/ps", bearer(q), nil, func(d *json.Decoder) error {
		var list struct {
			Models []struct {
				Name    string `json:"name"`
				Context int    `json:"context_length"`
			} `json:"models"`
		}
		if err := d.Decode(&list); err != nil {
			return err
		}
		for _, m := range list.Models {
			if m.Name == q.Model || m.Name == q.Model+":latest" {
				n = m.Context
			}
		}
		return nil
	})
	return n, err
}

// loadOllama loads the model, with the settings that requests of the OpenAI API get.
func loadOllama(ctx context.Context, base string, q Query) error {
	body, err := json.Marshal(map[string]any{"model": q.Model, "stream": false})
	if err != nil {
		return fmt.Errorf("encode query: %w", err)
	}
	return fetch(ctx, base+"/api/generate", bearer(q), body, func(d *json.Decoder) error {
		var any json.RawMessage
		return d.Decode(&any)
	})
}
