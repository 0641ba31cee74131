// Package catalog queries model services for the context length of a model. Each query is
// at most a few bounded HTTP requests without redirects; nothing is cached.
package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hermesd/internal/secret"
)

// A Query names one model of one service.
type Query struct {
	API     string // "anthropic", "ollama", or any other for OpenAI's list of models
	Model   string
	BaseURL string // as configured; for anthropic without /v1
	Key     secret.Value
}

// Limits of one query.
const (
	waitTimeout = 10 * time.Second
	loadTimeout = 5 * time.Minute // for Ollama, which may have to load the model
	maxCount    = 16 << 20        // bytes of an answer
)

// ErrNotReported is returned if the service answers, but reports no context length.
var ErrNotReported = errors.New("no context length reported")

// ContextLength returns the context length of the model in tokens, as reported by its
// service. It does not follow redirects, and its errors do not contain the key.
func ContextLength(ctx context.Context, q Query) (int, error) {
	base := strings.TrimRight(q.BaseURL, "/")
	if q.API == "ollama" {
		ctx, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		return queryOllama(ctx, strings.TrimSuffix(base, "/v1"), q)
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if q.API == "anthropic" {
		h := http.Header{"Anthropic-Version": {"2023-06-01"}}
		if q.Key != "" {
			h.Set("X-Api-Key", q.Key.Reveal())
		}
		return fetchModel(ctx, strings.TrimSuffix(base, "/v1")+"/v1/models/"+url.PathEscape(q.Model), h)
	}
	return findInList(ctx, base+"/models", q)
}

func bearer(q Query) http.Header {
	h := http.Header{}
	if q.Key != "" {
		h.Set("Authorization", "Bearer "+q.Key.Reveal())
	}
	return h
}

func fetchModel(ctx context.Context, at string, h http.Header) (n int, err error) {
	err = fetch(ctx, at, h, nil, func(d *json.Decoder) error {
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			return err
		}
		n = lengthOf(m)
		return nil
	})
	return checkReported(n, err)
}

// findInList searches the model list, without keeping it in memory: some lists are long.
func findInList(ctx context.Context, at string, q Query) (n int, err error) {
	err = fetch(ctx, at, bearer(q), nil, func(d *json.Decoder) error {
		if err := enterArray(d, "data"); err != nil {
			return err
		}
		for d.More() {
			var m map[string]any
			if err := d.Decode(&m); err != nil {
				return err
			}
			if id, _ := m["id"].(string); id == q.Model || id == q.Model+":latest" {
				n = lengthOf(m)
				return nil
			}
		}
		return nil
	})
	return checkReported(n, err)
}

func checkReported(n int, err error) (int, error) {
	if err == nil && n <= 0 {
		err = ErrNotReported
	}
	return n, err
}

// enterArray advances d into the array that an object has under name.
func enterArray(d *json.Decoder, name string) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errNoList, err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key == name {
			if t, err := d.Token(); err != nil || t != json.Delim('[') {
				return errors.Join(errNoList, err)
			}
			return nil
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return err
		}
	}
	return errNoList
}

var errNoList = errors.New("response is not a model list")

// lengthKeys returns the keys under which services report the length, the most reliable first.
func lengthKeys() []string {
	return []string{
		"context_length", "context_window", "context_size", "max_context_length", "max_model_len", "max_input_tokens",
		"max_sequence_length", "max_seq_len", "max_position_embeddings", "n_ctx", "ctx_size", "n_ctx_train",
	}
}

// lengthOf returns the context length in the description of a model. It looks into nested
// objects too; of several values under one key the smallest counts.
func lengthOf(m map[string]any) int {
	for _, name := range lengthKeys() {
		n := number(m[name])
		for _, v := range m {
			if in, ok := v.(map[string]any); ok {
				if k := number(in[name]); k > 0 && (n <= 0 || k < n) {
					n = k
				}
			}
		}
		if n > 0 {
			return n
		}
	}
	return 0
}

func number(v any) int {
	switch v := v.(type) {
	case float64:
		return int(min(max(v, 0), 1e12))
	case string:
		n, _ := strconv.Atoi(v)
		return n
	}
	return 0
}

// fetch sends a request and passes the response to read. With a body it is a POST.
func fetch(ctx context.Context, at string, h http.Header, body []byte, read func(*json.Decoder) error) error {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return errors.New("invalid base URL")
	}
	r.Header = h
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	defer t.CloseIdleConnections()
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only, nothing can be lost
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("unexpected status %d", resp.StatusCode)
	}
	if err := read(json.NewDecoder(io.LimitReader(resp.Body, maxCount))); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	return nil
}
