// Package anthropic implements an llm.Provider for the Anthropic Messages API.
//
// Request bodies are encoded by hand: equal requests give equal bytes, and the messages of
// the next request begin with the bytes of this one, except for cache breakpoints and
// overlays. Assistant messages that came from this API are replayed exactly as received,
// thinking and signatures included.
package anthropic

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
	"hermesd/internal/secret"
)

// Dialect is the Message.Dialect of messages whose Raw is a content array of this API.
const Dialect = "anthropic"

// DefaultURL is the base URL of Anthropic's own service.
const DefaultURL = "https://api.anthropic.com"

// Options configure a Provider. Only Key is required.
type Options struct {
	Name      string // "": anthropic
	BaseURL   string // "": DefaultURL; with or without /v1
	Key       secret.Value
	HTTP      *http.Client      // nil: a new client
	Headers   map[string]string // sent with each request
	MaxTokens int               // limit of answers whose request sets none; 0: 16,384
	Timeout   time.Duration     // for a whole answer; 0: 30 minutes
	// IdleTimeout is the maximum time without a byte from the service; 0: 15 minutes.
	IdleTimeout time.Duration
}

// A Provider calls models of the Messages API. Its methods may be called from any
// goroutine.
type Provider struct {
	client    apiclient.Client
	url       string
	maxTokens int
	header    http.Header
	tools     apiclient.Tools
}

// New returns a provider. It makes no connection.
func New(o Options) *Provider {
	p := &Provider{
		url:       strings.TrimSuffix(strings.TrimRight(cmp.Or(o.BaseURL, DefaultURL), "/"), "/v1") + "/v1/messages",
		maxTokens: cmp.Or(o.MaxTokens, 16_384),
		header:    http.Header{"Anthropic-Version": {"2023-06-01"}},
	}
	p.client = apiclient.Client{
		Name: cmp.Or(o.Name, "anthropic"), HTTP: apiclient.NewHTTP(o.HTTP), Headers: o.Headers, Key: o.Key,
	}
	p.client.Timeout, p.client.Idle = apiclient.Limits(o.Timeout, o.IdleTimeout, 15*time.Minute)
	if o.Key != "" {
		p.header.Set("X-Api-Key", o.Key.Reveal())
	}
	return p
}

func (p *Provider) Name() string { return p.client.Name }

func (p *Provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		var body apiclient.Body
		if err := p.encode(&body, r); err != nil {
			yield(nil, err)
			return
		}
		call, err := p.client.Post(ctx, p.url, p.header, &body)
		if err != nil {
			yield(nil, err)
			return
		}
		defer call.Close()
		a := answer{call: call, provider: p.Name(), model: r.Model}
		if err := a.read(yield); err != nil {
			yield(nil, err)
		}
	}
}
