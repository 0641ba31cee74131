// Package openai implements an llm.Provider for the Chat Completions API of OpenAI,
// OpenRouter, Ollama, vLLM, LM Studio and others.
//
// Request bodies are encoded by hand: equal requests give equal bytes, and the messages of
// the next request begin with the bytes of this one, except for cache breakpoints and
// overlays, so that prefix caches apply. The content of a message is a plain string; it is
// a list only for images, or if the target supports cache breakpoints.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
	"hermesd/internal/secret"
)

// Dialect is the Message.Dialect of messages that came from this API. Those with a Raw, the
// reasoning_details, have that of the service: Dialect, @ and its host. Only this service gets
// them back, because others reject members that they do not know.
const Dialect = "openai"

// DefaultURL is the base URL of OpenAI's own service.
const DefaultURL = "https://api.openai.com/v1"

// Options configure a Provider. The zero Options are those of OpenAI without a key.
type Options struct {
	Name    string       // "": openai
	BaseURL string       // including /v1; "": DefaultURL
	Key     secret.Value // "": none is sent, for local servers
	HTTP    *http.Client // nil: a new client
	Headers map[string]string
	// Routing is sent to OpenRouter with each request, if it is not empty.
	Routing Routing
	// MaxTokens limits answers whose request sets no limit; 0: none is sent.
	MaxTokens int
	Timeout   time.Duration // for a whole answer; 0: 30 minutes
	// IdleTimeout is the maximum time without a byte from the service; 0: 90 seconds.
	IdleTimeout time.Duration
}

// A Routing says which of the providers behind OpenRouter may get a request. Source:
// https://openrouter.ai/docs/features/provider-routing.
type Routing struct {
	DataCollection    string   `json:"data_collection,omitempty"` // allow or deny; "": the account's setting
	Only              []string `json:"only,omitempty"`
	Ignore            []string `json:"ignore,omitempty"`
	Order             []string `json:"order,omitempty"`
	RequireParameters bool     `json:"require_parameters,omitempty"`
	Sort              string   `json:"sort,omitempty"`
}

// A Provider calls models of one service. Its methods may be called from any goroutine.
type Provider struct {
	client    apiclient.Client
	url       string
	host      string
	maxTokens int
	routing   []byte // JSON; nil for none
	header    http.Header
	// plainTools is set once the service has rejected lists in tool messages.
	plainTools atomic.Bool
	tools      apiclient.Tools
}

// New returns a provider. It makes no connection.
func New(o Options) *Provider {
	base := strings.TrimRight(cmp.Or(o.BaseURL, DefaultURL), "/")
	p := &Provider{url: base + "/chat/completions", maxTokens: o.MaxTokens, header: http.Header{}}
	if raw, err := json.Marshal(o.Routing); err == nil && string(raw) != "{}" { // it cannot fail: texts
		p.routing = raw
	}
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

func (p *Provider) Name() string { return p.client.Name }

func (p *Provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		call, err := p.ask(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		defer call.Close()
		a := answer{
			call: call, provider: p.Name(), model: r.Model, dialect: p.dialect(), hour: r.CacheTTL == "1h",
			known: func(id string) bool { return r.Transcript != nil && r.Transcript.HasCall(id) },
		}
		if err := a.read(yield); err != nil {
			yield(nil, err)
		}
	}
}

// ask sends r. If the service rejects a request with lists in tool messages, but accepts
// the same request without them, such lists are no longer sent to it.
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
	case !s.hasLists() || s.plainTools || !bytes.Contains(body.Bytes(), []byte(`{"role":"tool",`)):
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

// dialect returns the Message.Dialect of messages that only this service gets back as they were.
func (p *Provider) dialect() string { return Dialect + "@" + p.host }

// isHost reports whether the service is at domain or a subdomain of it.
func (p *Provider) isHost(domain string) bool {
	return p.host == domain || strings.HasSuffix(p.host, "."+domain)
}

// Encode appends the body of the request r to dst. Equal requests append equal bytes, until
// the service has rejected lists in tool messages. It uses and fills the transcript's
// cached wire form.
func (p *Provider) Encode(dst []byte, r *llm.Request) ([]byte, error) {
	body := apiclient.Body{Buf: dst}
	if err := p.encode(&body, r, p.shape(r)); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// shape returns the content format for the target of r.
func (p *Provider) shape(r *llm.Request) shape {
	on, _ := llm.CacheBreakpoints(p.Name(), r.Model, p.url)
	if !on || r.CacheTTL == "" {
		return shape{dialect: p.dialect()}
	}
	return shape{dialect: p.dialect(), mark: apiclient.Mark(r.CacheTTL), plainTools: p.plainTools.Load()}
}

func (p *Provider) encode(b *apiclient.Body, r *llm.Request, s shape) error {
	msgs, err := apiclient.ListOf(r)
	if err != nil {
		return &llm.Error{Class: llm.Format, Provider: p.Name(), Message: err.Error()}
	}
	dst := apiclient.AppendString(append(b.Buf, `{"model":`...), r.Model)
	b.Buf = append(dst, `,"messages":`...)
	s.appendMessages(b, r, msgs)
	if len(r.Tools) > 0 {
		b.Buf = append(b.Buf, `,"tools":[`...)
		p.tools.Append(b, r.Tools, appendTool)
		b.Buf = append(b.Buf, ']')
		if r.NoTools {
			b.Buf = append(b.Buf, `,"tool_choice":"none"`...)
		}
	}
	b.Buf = p.appendOptions(b.Buf, r)
	return nil
}

// appendOptions appends the members after the tools.
func (p *Provider) appendOptions(dst []byte, r *llm.Request) []byte {
	dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true}`...)
	n := cmp.Or(r.MaxTokens, p.maxTokens)
	if r.OutputLimit > 0 && (n == 0 || n > r.OutputLimit) {
		n = r.OutputLimit
	}
	if n > 0 {
		field := `,"max_tokens":`
		if p.isHost("openai.com") || p.isHost("azure.com") {
			field = `,"max_completion_tokens":`
		}
		dst = strconv.AppendInt(append(dst, field...), int64(n), 10)
	}
	if r.Effort != "" && p.isHost("openrouter.ai") {
		dst = apiclient.AppendString(append(dst, `,"reasoning":{"effort":`...), r.Effort)
		dst = append(dst, '}')
	} else if r.Effort != "" {
		dst = apiclient.AppendString(append(dst, `,"reasoning_effort":`...), r.Effort)
	}
	if p.routing != nil {
		dst = append(append(dst, `,"provider":`...), p.routing...)
	}
	return append(dst, '}')
}

func appendTool(dst []byte, t llm.Tool) []byte {
	dst = apiclient.AppendString(append(dst, `{"type":"function","function":{"name":`...), t.Name)
	if t.Description != "" {
		dst = apiclient.AppendString(append(dst, `,"description":`...), t.Description)
	}
	dst = append(dst, `,"parameters":`...)
	if len(t.Schema) == 0 {
		dst = append(dst, `{"type":"object","properties":{}}`...)
	}
	return append(append(dst, t.Schema...), `}}`...)
}
