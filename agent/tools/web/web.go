// Package web holds the tools with which a model reads the web: web_extract,
// which turns pages into Markdown, and web_search, which asks a search service.
//
// Pages are chosen by people and models, so they are fetched by a client of
// internal/safehttp that reaches the public internet only; the search service is
// chosen by the operator and has a client of its own. Everything that comes back
// is foreign text: it stands between tags that it cannot close, and what looks
// like instructions to the model is pointed out ahead of it.
//
// Nothing is done on the network before a tool is called. Everything is bounded:
// bytes, time, redirects, characters, and the work that a page can make; what was
// cut off is said.
package web

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/internal/safehttp"
	"hermesd/internal/secret"
)

// Limits of what is fetched and shown.
const (
	maxPages     = 5      // of one call
	maxShown     = 50_000 // characters of all pages of a call
	maxURL       = 2048   // bytes
	maxTitle     = 200    // characters
	resultRoom   = 20_000 // characters for all that stands around the pages
	maxIdle      = 2      // connections that are kept for a host
	defaultTime  = 30 * time.Second
	defaultBytes = 2 << 20 // of one page, as it is after decompression
)

//go:embed web_extract.md web_extract.json web_search.md web_search.json
var texts embed.FS

// Options say how the tools reach the web.
type Options struct {
	// Dial says how pages are reached. Its Allow list is for places of the
	// operator's own network that models may read; leave it empty otherwise.
	Dial safehttp.Options
	// Search is the service that web_search asks; without one there is no such
	// tool.
	Search Search
	// Scan returns the names of what looks like instructions in a text; nil: texts
	// are not looked at. It is called from several goroutines.
	Scan func(text string) []string
	// Secrets are never sent: an address or a query that holds one is refused. nil:
	// nothing is known to be secret.
	Secrets *secret.Masker
	// Timeout bounds the fetching of one page and one search; 0: 30 seconds.
	Timeout time.Duration
	// MaxBytes is the most of one page that is read, and of an answer to a search;
	// 0: 2 MB.
	MaxBytes int64
	// UserAgent is how the tools name themselves; "": hermesd.
	UserAgent string
	Log       *zap.Logger // nil: nothing is logged
}

// Validate says what is wrong with the options, in the operator's words.
func (o Options) Validate() error { return errors.Join(o.Dial.Validate(), o.Search.Validate()) }

// Web are the tools and their connections. Its methods may be called from any
// goroutine.
type Web struct {
	o      Options
	pages  *http.Client
	engine *engine
	turn   chan struct{} // holds one token: pages are converted one at a time
}

// New returns the tools. It fails if Validate does.
func New(o Options) (*Web, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("web tools: %w", err)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTime)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultBytes)
	o.UserAgent = cmp.Or(o.UserAgent, "hermesd")
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Dial.Idle = maxIdle
	w := &Web{o: o, pages: safehttp.New(o.Dial), turn: make(chan struct{}, 1)}
	if o.Search.Provider == "" {
		return w, nil
	}
	reach := o.Dial
	reach.Allow = nil
	if o.Search.BaseURL != "" {
		u, err := url.Parse(o.Search.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("web tools: %w", err) // Validate has let it pass
		}
		reach.Allow = []string{net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))}
	}
	w.engine = newEngine(o, safehttp.New(reach))
	return w, nil
}

// Tools returns the tools: web_extract, and web_search if there is a service.
func (w *Web) Tools() []tool.Tool {
	all := []tool.Tool{tool.New(spec("web_extract", maxShown+resultRoom), w.extract)}
	if w.engine != nil {
		all = append(all, tool.New(spec("web_search", resultRoom), w.search))
	}
	return all
}

// Close ends the connections that are kept open. The tools can be used after it.
func (w *Web) Close() {
	w.pages.CloseIdleConnections()
	if w.engine != nil {
		w.engine.client.CloseIdleConnections()
	}
}

func spec(name string, limit int) tool.Spec {
	return tool.Spec{
		Tool:   llm.Tool{Name: name, Description: text(name + ".md"), Schema: json.RawMessage(text(name + ".json"))},
		Effect: tool.Pure, Parallel: true, MaxResult: limit,
	}
}

func text(name string) string {
	b, err := texts.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded above
	}
	return strings.TrimSpace(string(b))
}

// secretIn reports whether s, written as it is or as in a URL, holds a secret.
func (w *Web) secretIn(s string) bool {
	if w.o.Secrets == nil {
		return false
	}
	plain, err := url.QueryUnescape(s)
	return w.o.Secrets.Mask(s) != s || err == nil && w.o.Secrets.Mask(plain) != plain
}
