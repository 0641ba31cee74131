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
	"strconv"
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

// Encode appends the body of the request r to dst. Equal requests append equal bytes. It
// uses and fills the transcript's cached wire form.
func (p *Provider) Encode(dst []byte, r *llm.Request) ([]byte, error) {
	body := apiclient.Body{Buf: dst}
	if err := p.encode(&body, r); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

func (p *Provider) encode(b *apiclient.Body, r *llm.Request) error {
	msgs, err := apiclient.ListOf(r)
	if err != nil {
		return &llm.Error{Class: llm.Format, Provider: p.Name(), Message: err.Error()}
	}
	mark := ""
	if on, _ := llm.CacheBreakpoints("anthropic", r.Model, p.url); on {
		mark = apiclient.Mark(r.CacheTTL)
	}
	th := thinkingFor(r.Model, r.Effort, cmp.Or(r.MaxTokens, p.maxTokens), r.OutputLimit)

	dst := apiclient.AppendString(append(b.Buf, `{"model":`...), r.Model)
	dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(th.maxTokens), 10)
	dst = appendSystem(dst, r, mark)
	if len(r.Tools) > 0 {
		b.Buf = append(dst, `,"tools":[`...)
		p.tools.Append(b, r.Tools, appendTool)
		dst = append(b.Buf, ']')
	}
	b.Buf = append(dst, `,"messages":`...)
	appendMessages(b, msgs, mark)
	dst = append(b.Buf, `,"stream":true`...)
	if r.NoTools && len(r.Tools) > 0 {
		dst = append(dst, `,"tool_choice":{"type":"none"}`...)
	}
	b.Buf = append(append(dst, th.fields...), '}')
	return nil
}

// appendSystem appends the cached prompt with its cache breakpoint, followed by the system
// overlay.
func appendSystem(dst []byte, r *llm.Request, mark string) []byte {
	const next = `,"system":[`
	from := len(dst)
	dst = append(dst, next...)
	if !apiclient.Blank(r.System) {
		dst = apiclient.AppendString(append(dst, `{"type":"text","text":`...), r.System)
		dst = append(append(dst, mark...), `},`...)
	}
	if !apiclient.Blank(r.SystemOverlay) {
		dst = apiclient.AppendString(append(dst, `{"type":"text","text":`...), r.SystemOverlay)
		dst = append(dst, `},`...)
	}
	if len(dst) == from+len(next) {
		return dst[:from]
	}
	dst[len(dst)-1] = ']' // replaces the last comma
	return dst
}

func appendTool(dst []byte, t llm.Tool) []byte {
	dst = apiclient.AppendString(append(dst, `{"name":`...), t.Name)
	if t.Description != "" {
		dst = apiclient.AppendString(append(dst, `,"description":`...), t.Description)
	}
	dst = append(dst, `,"input_schema":`...)
	if len(t.Schema) == 0 {
		dst = append(dst, `{"type":"object"}`...)
	}
	return append(append(dst, t.Schema...), '}')
}
