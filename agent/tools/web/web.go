// Package web implements the tools with which a model reads the web: web_extract converts
// pages to Markdown, web_search queries a search service. The main type is Web.
//
// Pages are chosen by users and models, so they are fetched by a client of
// internal/safehttp that reaches the public internet only. The search service is chosen by
// the operator and has its own client. Results are untrusted text: they are enclosed in
// tags that they cannot close, and a warning precedes text that looks like instructions to
// the model.
//
// There is no network access before a tool is called. Bytes, time, redirects, characters
// and the parsing work of a page are limited; a result says where it was cut.
package web

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/internal/safehttp"
	"hermesd/internal/secret"
)

// Limits of fetched and returned data.
const (
	maxPages     = 5      // per call
	maxShown     = 50_000 // characters of all pages of one call
	maxURL       = 2048   // bytes
	maxTitle     = 200    // characters
	resultRoom   = 20_000 // characters of a result in addition to the pages
	maxIdle      = 2      // idle connections kept per host
	defaultTime  = 30 * time.Second
	defaultBytes = 2 << 20 // of one page, after decompression
)

//go:embed web_extract.md web_extract.json web_search.md web_search.json
var texts embed.FS

// Options configure the tools.
type Options struct {
	// Dial configures how pages are fetched. Its Allow list is for hosts of the operator's
	// own network that models may read; it is normally empty.
	Dial safehttp.Options
	// Search is the service that web_search queries; without one there is no such tool.
	Search Search
	// Scan returns names of the prompt injections found in a text. It is required, and
	// called from several goroutines.
	Scan func(text string) []string
	// Secrets are never sent: a URL or query that contains one is rejected. It is required.
	Secrets *secret.Masker
	// Blocked are domains whose pages are never fetched, with their subdomains; *.x is all
	// subdomains of x.
	Blocked []string
	// Timeout limits the fetching of one page and one search; 0: 30 seconds.
	Timeout time.Duration
	// MaxBytes limits the size of one page and of a search response; 0: 2 MB.
	MaxBytes int64
	// UserAgent is sent as the User-Agent header; "": hermesd.
	UserAgent string
	Log       *zap.Logger // required
}

// Validate returns what is wrong with the options, as a text for the operator.
func (o Options) Validate() error { return errors.Join(o.Dial.Validate(), o.Search.Validate()) }

// A Web holds the tools and their connections. Its methods may be called from any
// goroutine.
type Web struct {
	o           Options
	pages       *http.Client
	engine      *searchClient
	convertSlot chan struct{} // semaphore: pages are converted one at a time
}

// New returns the tools. It fails if Validate does.
func New(o Options) (*Web, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("web tools: %w", err)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTime)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultBytes)
	o.UserAgent = cmp.Or(o.UserAgent, "hermesd")
	o.Dial.Idle = maxIdle
	w := &Web{o: o, pages: blocking(safehttp.New(o.Dial), o.Blocked), convertSlot: make(chan struct{}, 1)}
	if o.Search.Provider == "" {
		return w, nil
	}
	reach := o.Dial
	reach.Allow = nil
	if o.Search.BaseURL != "" {
		u, err := url.Parse(o.Search.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("web tools: %w", err) // not reached after Validate
		}
		reach.Allow = []string{net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))}
	}
	w.engine = newSearchClient(o, safehttp.New(reach))
	return w, nil
}

// Tools returns web_extract, and web_search if there is a search service.
func (w *Web) Tools() []tool.Tool {
	all := []tool.Tool{tool.New(spec("web_extract", maxShown+resultRoom), w.extract)}
	if w.engine != nil {
		all = append(all, tool.New(spec("web_search", resultRoom), w.search))
	}
	return all
}

// Close closes idle connections. The tools can be used afterwards.
func (w *Web) Close() {
	w.pages.CloseIdleConnections()
	if w.engine != nil {
		w.engine.client.CloseIdleConnections()
	}
}

func spec(name string, limit int) tool.Spec {
	return tool.Spec{
		Tool:   tool.Definition(texts, name),
		Effect: tool.Pure, Parallel: true, MaxResult: limit,
	}
}

// secretIn reports whether s contains a secret, in plain or in URL encoding.
func (w *Web) secretIn(s string) bool {
	plain, err := url.QueryUnescape(s)
	return w.o.Secrets.Mask(s) != s || err == nil && w.o.Secrets.Mask(plain) != plain
}
