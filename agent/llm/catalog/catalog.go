// Package catalog asks model services how many tokens their models take.
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

// A Query asks for one model of one service.
type Query struct {
	Provider string // anthropic, ollama, or any other that has OpenAI's list of models
	Model    string
	BaseURL  string // as the provider's client has it: for anthropic without /v1
	Key      secret.Value
}

// The bounds of one question.
const (
	waitTimeout = 10 * time.Second
	maxCount    = 16 << 20 // bytes of an answer
)

// ErrNotReported is returned for a service that answers, but does not tell.
var ErrNotReported = errors.New("it does not tell how many tokens the model takes")

// ContextLength returns how many tokens the model takes by its service. It follows
// nobody elsewhere, and its errors do not show the key.
func ContextLength(ctx context.Context, q Query) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	base := strings.TrimRight(q.BaseURL, "/")
	switch q.Provider {
	case "anthropic":
		h := http.Header{"Anthropic-Version": {"2023-06-01"}}
		if q.Key != "" {
			h.Set("X-Api-Key", q.Key.Reveal())
		}
		return one(ctx, strings.TrimSuffix(base, "/v1")+"/v1/models/"+url.PathEscape(q.Model), h)
	case "ollama":
		return show(ctx, strings.TrimSuffix(base, "/v1")+"/api/show", q)
	}
	return listed(ctx, base+"/models", q)
}

func bearer(q Query) http.Header {
	h := http.Header{}
	if q.Key != "" {
		h.Set("Authorization", "Bearer "+q.Key.Reveal())
	}
	return h
}

// one reads what a service says of a single model.
func one(ctx context.Context, at string, h http.Header) (n int, err error) {
	err = ask(ctx, at, h, nil, func(d *json.Decoder) error {
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			return err
		}
		n = length(m)
		return nil
	})
	return told(n, err)
}

// listed looks for the model in a list, which it does not keep: that of some
// services is long.
func listed(ctx context.Context, at string, q Query) (n int, err error) {
	err = ask(ctx, at, bearer(q), nil, func(d *json.Decoder) error {
		if err := enter(d, "data"); err != nil {
			return err
		}
		for d.More() {
			var m map[string]any
			if err := d.Decode(&m); err != nil {
				return err
			}
			if id, _ := m["id"].(string); id == q.Model || id == q.Model+":latest" {
				n = length(m)
				return nil
			}
		}
		return nil
	})
	return told(n, err)
}

// show asks an Ollama. What it was told to use goes before what the model could
// take.
func show(ctx context.Context, at string, q Query) (n int, err error) {
	body, err := json.Marshal(map[string]string{"model": q.Model})
	if err != nil {
		return 0, fmt.Errorf("ask for a model: %w", err)
	}
	err = ask(ctx, at, bearer(q), body, func(d *json.Decoder) error {
		var m struct {
			Parameters string         `json:"parameters"`
			Info       map[string]any `json:"model_info"`
		}
		if err := d.Decode(&m); err != nil {
			return err
		}
		for line := range strings.Lines(m.Parameters) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "num_ctx" {
				n, _ = strconv.Atoi(f[1])
			}
		}
		for k, v := range m.Info {
			if n <= 0 && strings.HasSuffix(k, ".context_length") {
				n = number(v)
			}
		}
		return nil
	})
	return told(n, err)
}

func told(n int, err error) (int, error) {
	if err == nil && n <= 0 {
		err = ErrNotReported
	}
	return n, err
}

// enter moves d into the list that an object has under name.
func enter(d *json.Decoder, name string) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errForm, err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key == name {
			if t, err := d.Token(); err != nil || t != json.Delim('[') {
				return errors.Join(errForm, err)
			}
			return nil
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return err
		}
	}
	return errForm
}

var errForm = errors.New("it is no list of models")

// names are the keys under which services tell the length, the surest first.
func names() []string {
	return []string{
		"context_length", "context_window", "context_size", "max_context_length", "max_model_len", "max_input_tokens",
		"max_sequence_length", "max_seq_len", "max_position_embeddings", "n_ctx", "ctx_size", "n_ctx_train",
	}
}

// length finds the length of a model in what a service says of it: also in an
// object within, and of several under one name the least.
func length(m map[string]any) int {
	for _, name := range names() {
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

// ask has read read an answer. With a body it is a POST.
func ask(ctx context.Context, at string, h http.Header, body []byte, read func(*json.Decoder) error) error {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return errors.New("this is not an address")
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
		return fmt.Errorf("it is not reached: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %d", resp.StatusCode)
	}
	if err := read(json.NewDecoder(io.LimitReader(resp.Body, maxCount))); err != nil {
		return fmt.Errorf("it answers, but not as expected: %w", err)
	}
	return nil
}
