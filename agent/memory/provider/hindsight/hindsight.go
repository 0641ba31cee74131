// Package hindsight is the client of Hindsight: its cloud, or an API server of one's
// own. A conversation is a document there, from which a model extracts facts; a later
// consolidation makes observations of them, which is what a recall finds by default.
// Each person has a bank.
package hindsight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/shorten"
)

const (
	cloud = "https://api.hindsight.vectorize.io"
	local = "http://localhost:8888"
	banks = "/v1/default/banks/" // a path
	// versionTimeout limits the call that asks for the version of the API.
	versionTimeout = 5 * time.Second
)

// A client is a provider.Provider.
type client struct {
	options

	rest *rest.Client
	// repeatable: the server knows operation_id; nil: not yet asked.
	repeatable atomic.Pointer[bool]
}

// Open returns the provider that is configured by hindsight/config.json in the Hermes
// home, else by ~/.hindsight/config.json, else by HINDSIGHT_MODE, HINDSIGHT_API_KEY,
// HINDSIGHT_API_URL and the other variables of that name.
func Open(s provider.Source) (provider.Provider, []string, error) {
	o, warnings, err := load(s)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case o.mode == "local" || o.mode == "local_embedded":
		return nil, warnings, fmt.Errorf("%w: Hindsight mode local_embedded is a Python daemon: start its API server, set mode local_external and api_url. Nothing was deleted", provider.ErrImpossible)
	case o.mode == "local_external":
		o.url = cmp.Or(o.url, local)
	case o.key == "" && o.url == "":
		return nil, warnings, errors.New("hindsight: there is no key: set HINDSIGHT_API_KEY (https://ui.hindsight.vectorize.io), or set mode local_external and api_url for your own server")
	case o.mode != "cloud":
		warnings = append(warnings, fmt.Sprintf("hindsight: mode %q is unknown, cloud is used", o.mode))
		o.mode = "cloud"
	}
	if o.timeout <= 0 {
		o.timeout = rest.WriteTimeout
	}
	c := &client{options: o}
	if c.rest, err = rest.New("Hindsight", cmp.Or(o.url, cloud), o.key, s); err != nil {
		return nil, warnings, err
	}
	c.rest.Header = func() http.Header {
		if o.key == "" {
			return http.Header{}
		}
		return http.Header{"Authorization": {"Bearer " + o.key.Reveal()}}
	}
	return c, warnings, nil
}

const (
	header     = "# Hindsight Memory\nHindsight holds what is known of this person from earlier conversations."
	headerAuto = " What fits a message is recalled with it; no tool is needed for what is there already."
	headerTool = " hindsight_recall searches it, hindsight_reflect answers a question from all of it, hindsight_retain stores a fact."
)

// About implements provider.Provider.
func (c *client) About() provider.About {
	a := provider.About{
		Name: "hindsight", Label: "Hindsight", Mode: c.mode, Place: c.rest.Base, Header: header, Exact: true, PerID: strings.Contains(c.template, "{user}"),
		NoRecall: c.memoryMode == "tools" || !c.recalls, NoTools: c.memoryMode == "context", Wait: c.waits,
		Cannot: "what Hindsight has derived from several conversations, if one of them is deleted",
	}
	if !a.PerID {
		a.Owner = c.ownersBank(provider.Scope{})
	}
	if !a.NoRecall {
		a.Header += headerAuto
	}
	if !a.NoTools {
		a.Header += headerTool
		a.Tools = tools()
	}
	return a
}

// bankName returns the name of the bank of a scope. Those of other people begin with the
// name of the configured bank, so that they are not banks of something else.
func (c *client) bankName(s provider.Scope) string {
	if s.Person != "" {
		return c.options.bank + "-" + s.Person
	}
	return c.ownersBank(s)
}

func (c *client) bank(s provider.Scope) string { return banks + escape(c.bankName(s)) }

// escape escapes a text as one part of a path. A part of dots only would be one that
// servers resolve.
func escape(s string) string {
	if strings.Trim(s, ".") == "" {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// read returns the limit of a call that reads, write that of one that starts a model or
// changes something.
func (c *client) read() time.Duration  { return min(c.timeout, rest.ReadTimeout) }
func (c *client) write() time.Duration { return min(c.timeout, rest.WriteTimeout) }

func (c *client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.rest.Do(ctx, rest.Call{Method: "GET", Path: path, Query: query, Timeout: c.read(), Reads: true}, out)
}

// Check implements provider.Provider. A bank that does not exist yet is no error, but
// the server must be Hindsight's.
func (c *client) Check(ctx context.Context) (h provider.Health, err error) {
	err = c.get(ctx, c.bank(provider.Scope{})+"/operations", url.Values{"limit": {"1"}}, &struct{}{})
	if err != nil && !provider.IsMissing(err) {
		return h, err
	}
	v, versionErr := c.version(ctx)
	h.Version = shorten.Line(v, 100)
	if err == nil { // the bank has answered
		return h, nil
	}
	if err = versionErr; err == nil && v == "" {
		err = &provider.Error{Class: provider.Garbage, Text: "Hindsight: the server at " + c.rest.Base + " is not Hindsight's"}
	}
	return h, err
}

// version returns the version of the API; "" if the server does not say.
func (c *client) version(ctx context.Context) (string, error) {
	var out struct {
		API string `json:"api_version"`
		Old string `json:"version"`
	}
	err := c.rest.Do(ctx, rest.Call{Method: "GET", Path: "/version", Timeout: min(c.timeout, versionTimeout), Reads: true}, &out)
	if provider.IsMissing(err) {
		return "", nil // an old server
	}
	return cmp.Or(out.API, out.Old), err
}

// repeats reports whether a write with an operation_id is done once. The server is asked
// once.
func (c *client) repeats(ctx context.Context) (bool, error) {
	if known := c.repeatable.Load(); known != nil {
		return *known, nil
	}
	v, err := c.version(ctx)
	if err != nil {
		return false, err
	}
	yes := atLeast(v, 0, 8, 6)
	c.repeatable.Store(&yes)
	return yes, nil
}

// atLeast reports whether a version such as "0.9.1" is one or newer.
func atLeast(version string, want ...int) bool {
	parts := strings.Split(version, ".")
	for i, w := range want {
		n := 0
		if i < len(parts) {
			digits := strings.TrimRightFunc(parts[i], func(r rune) bool { return r < '0' || r > '9' })
			var err error
			if n, err = strconv.Atoi(digits); err != nil {
				return false
			}
		}
		if n != w {
			return n > w
		}
	}
	return true
}

// Standing implements provider.Provider.
func (*client) Standing(context.Context, provider.Scope) (string, error) { return "", nil }

// Recall implements provider.Provider.
func (c *client) Recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	if c.maxInput > 0 {
		query = query[:shorten.Offset(query, c.maxInput)]
	}
	if c.reflects {
		text, err := c.reflect(ctx, s, query)
		if err != nil || text == "" {
			return nil, err
		}
		return []provider.Item{{Text: text}}, nil
	}
	items, err := c.recall(ctx, s, query)
	if c.maxResults > 0 && len(items) > c.maxResults {
		items = items[:c.maxResults]
	}
	return items, err
}

func (c *client) recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	body := map[string]any{"query": query, "budget": c.budget, "max_tokens": c.maxTokens}
	if len(c.tags) > 0 {
		body["tags"], body["tags_match"] = c.tags, c.match
	}
	if len(c.types) > 0 {
		body["types"] = c.types
	}
	var out struct {
		Results []struct {
			ID   string `json:"id"`
			Text string `json:"text"`
		} `json:"results"`
	}
	call := rest.Call{Method: "POST", Path: c.bank(s) + "/memories/recall", Body: body, Timeout: c.read(), Reads: true}
	if err := c.rest.Do(ctx, call, &out); err != nil {
		return nil, err
	}
	var items []provider.Item
	for _, r := range out.Results {
		if r.Text != "" {
			items = append(items, provider.Item{ID: r.ID, Text: r.Text})
		}
	}
	return items, nil
}

// reflect returns what the bank's model answers. It is not repeated: each costs.
func (c *client) reflect(ctx context.Context, s provider.Scope, query string) (string, error) {
	var out struct {
		Text string `json:"text"`
	}
	err := c.rest.Do(ctx, rest.Call{Method: "POST", Path: c.bank(s) + "/reflect", Body: map[string]any{"query": query, "budget": c.budget}, Timeout: c.write()}, &out)
	return strings.TrimSpace(out.Text), err
}

// Close implements provider.Provider.
func (c *client) Close() error {
	c.rest.Close()
	return nil
}
