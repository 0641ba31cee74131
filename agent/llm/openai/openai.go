// Package openai speaks Chat Completions, as OpenAI, OpenRouter, Ollama, vLLM,
// LM Studio and others do.
//
// The bytes of a request are written by hand: the same request is the same
// bytes, and the messages of the next one begin with the bytes of this one, the
// marks and overlay apart, so that caches of prefixes hold. The content of a
// message is a plain string, and a list only where there are pictures, or where
// the target wants cache marks.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
	"hermesd/internal/secret"
)

// Dialect marks the messages that came from this API.
const Dialect = "openai"

// DefaultURL is where OpenAI itself is.
const DefaultURL = "https://api.openai.com/v1"

// Options say how to reach a service.
type Options struct {
	Name    string       // "": openai
	BaseURL string       // up to and with /v1; "": DefaultURL
	Key     secret.Value // "": none is sent, for servers at home
	HTTP    *http.Client // nil: one of our own
	Headers map[string]string
	// MaxTokens is the limit of an answer that asks for no other; 0: none is
	// sent.
	MaxTokens int
	Timeout   time.Duration // of a whole answer; 0: 30 minutes
	// IdleTimeout is how long the service may send nothing; 0: 90 seconds.
	IdleTimeout time.Duration
}

// A Provider calls models of one service. Its methods may be called from any
// goroutine.
type Provider struct {
	client    apiclient.Client
	url       string
	host      string
	maxTokens int
	header    http.Header
	// plainTools is set once the service has refused lists in tool messages.
	plainTools atomic.Bool
}

// New returns a provider.
func New(o Options) *Provider {
	base := strings.TrimRight(cmp.Or(o.BaseURL, DefaultURL), "/")
	p := &Provider{url: base + "/chat/completions", maxTokens: o.MaxTokens, header: http.Header{}}
	if u, err := url.Parse(base); err == nil {
		p.host = u.Hostname()
	}
	p.client = apiclient.Client{
		Name: cmp.Or(o.Name, "openai"), HTTP: apiclient.NewHTTP(o.HTTP), Headers: o.Headers, Key: o.Key,
	}
	p.client.Timeout, p.client.Idle = apiclient.Limits(o.Timeout, o.IdleTimeout, 90*time.Second)
	if o.Key != "" {
		p.header.Set("Authorization", "Bearer "+o.Key.Reveal())
	}
	return p
}

// Name implements llm.Provider.
func (p *Provider) Name() string { return p.client.Name }

// Stream implements llm.Provider.
func (p *Provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		call, err := p.ask(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		defer call.Close()
		a := answer{call: call, provider: p.Name(), model: r.Model, hour: r.CacheTTL == "1h"}
		if err := a.read(yield); err != nil {
			yield(nil, err)
		}
	}
}

// ask sends r. A service that refuses a request with lists in tool messages,
// but not the same one without them, is never sent such lists again.
func (p *Provider) ask(ctx context.Context, r *llm.Request) (*apiclient.Call, error) {
	s := p.shape(r)
	var body apiclient.Body
	if err := p.encode(&body, r, s); err != nil {
		return nil, err
	}
	call, err := p.client.Post(ctx, p.url, p.header, &body)
	e, refused := errors.AsType[*llm.Error](err)
	switch {
	case !refused || e.Class != llm.Format || e.MaxTokens > 0:
		return call, err
	case !s.lists() || s.plainTools || !bytes.Contains(body.Bytes(), []byte(`{"role":"tool",`)):
		return nil, err
	}
	s.plainTools = true
	body = apiclient.Body{}
	if err = p.encode(&body, r, s); err != nil {
		return nil, err
	}
	if call, err = p.client.Post(ctx, p.url, p.header, &body); err == nil {
		p.plainTools.Store(true)
	}
	return call, err
}

// isHost reports whether the service is that of domain.
func (p *Provider) isHost(domain string) bool {
	return p.host == domain || strings.HasSuffix(p.host, "."+domain)
}
