// Package openviking keeps memories in an OpenViking server. It does not start the server.
//
// Messages of a session become memories after a commit, which the server works on later.
package openviking

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/shorten"
)

// label names the provider to people.
const label = "OpenViking"

// trusted begins the refusal of a server that wants account and user in spite of a key.
const trusted = "Trusted mode requests must include"

type client struct {
	options
	rest    *rest.Client
	open    func(path string) (fs.File, error) // a file that the model names; nil: none may be sent
	tenants atomic.Bool                        // the server wants account and user in spite of the key
	roots   sync.Map                           // URI of a person's data by Scope.Person
}

// Open returns the provider.
func Open(s provider.Source) (provider.Provider, []string, error) {
	c, warnings, err := load(s)
	if err != nil {
		return nil, nil, err
	}
	r, err := rest.New(label, c.url, c.key, s)
	if err != nil {
		return nil, nil, err
	}
	s.Learn(c.key)
	return &client{options: c, rest: r, open: s.Open}, warnings, nil
}

func (c *client) About() provider.About {
	return provider.About{
		Name: "openviking", Label: label, Place: c.url, Owner: c.user,
		Header: "# OpenViking memory\nActive. What is known of earlier conversations is recalled with each message. " +
			"viking_search finds more, viking_read reads what it found, viking_browse lists directories, viking_remember stores a fact, " +
			"viking_forget deletes a memory file and viking_add_resource adds a document or repository.",
		Tools: tools(),
		Wait:  true, Exact: true, Checkpoints: true, ToolUses: true,
		Cannot: "what OpenViking has already extracted from a forgotten conversation",
	}
}

// Check implements provider.Provider. A server that does not tell its version works too.
func (c *client) Check(ctx context.Context) (h provider.Health, err error) {
	if err := c.do(ctx, "", rest.Call{Method: "GET", Path: "/api/v1/system/status", Reads: true}, nil); err != nil {
		return h, err
	}
	var out struct {
		Version string `json:"version"`
	}
	if c.rest.Do(ctx, rest.Call{Method: "GET", Path: "/health", Timeout: versionTimeout, Reads: true}, &out) == nil {
		h.Version = shorten.Line(out.Version, 200)
	}
	return h, nil
}

const versionTimeout = 3 * time.Second

// Standing returns nothing: OpenViking knows memories only by search.
func (c *client) Standing(context.Context, provider.Scope) (string, error) { return "", nil }

func (c *client) Close() error {
	c.rest.Close()
	return nil
}

// do makes a call for a person and decodes its result into out, unless out is nil.
func (c *client) do(ctx context.Context, person string, call rest.Call, out any) error {
	tenant := c.key == "" || person != "" || c.tenants.Load()
	call.Header = c.header(person, tenant)
	err := c.once(ctx, call, out)
	if e, ok := errors.AsType[*provider.Error](err); ok && !tenant && strings.Contains(e.Text, trusted) {
		c.tenants.Store(true)
		call.Header = c.header(person, true)
		return c.once(ctx, call, out)
	}
	return err
}

func (c *client) header(person string, tenant bool) http.Header {
	h := http.Header{}
	h.Set("X-OpenViking-Actor-Peer", c.peer)
	if c.key != "" {
		h.Set("X-API-Key", c.key.Reveal())
		h.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	if tenant {
		user := c.user
		if person != "" {
			user = person
		}
		h.Set("X-OpenViking-Account", c.account)
		h.Set("X-OpenViking-User", user)
	}
	return h
}

// once makes a call and removes the envelope from its answer.
func (c *client) once(ctx context.Context, call rest.Call, out any) error {
	var envelope struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
		Error  struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := c.rest.Do(ctx, call, &envelope); err != nil {
		return err
	}
	switch {
	case envelope.Status == "error":
		return &provider.Error{Class: provider.Refused, Text: label + " refuses this: " + shorten.Line(envelope.Error.Message, 200)}
	case envelope.Status != "ok":
		return garbage(errors.New("no status"))
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(envelope.Result, out); err != nil {
		return garbage(err)
	}
	return nil
}

func garbage(err error) error {
	return &provider.Error{Class: provider.Garbage, Sent: true, Text: label + " has sent an answer that cannot be read", Err: err}
}

// except returns err unless it means that something does not exist.
func except(err error) error {
	if provider.IsMissing(err) {
		return nil
	}
	return err
}

func sessionPath(id, rest string) string { return "/api/v1/sessions/" + url.PathEscape(id) + rest }

func uriQuery(uri string) url.Values { return url.Values{"uri": {uri}} }

// root returns the URI of a person's data, as the server says it.
func (c *client) root(ctx context.Context, person string) (string, error) {
	if v, ok := c.roots.Load(person); ok {
		return v.(string), nil
	}
	var made struct {
		ID  string `json:"session_id"`
		URI string `json:"uri"`
	}
	if err := c.do(ctx, person, rest.Call{Method: "POST", Path: "/api/v1/sessions", Body: struct{}{}}, &made); err != nil {
		return "", err
	}
	root, _, ok := strings.Cut(made.URI, "/sessions/")
	if !ok || made.ID == "" || !strings.HasPrefix(root, "viking://user/") {
		return "", garbage(errors.New("the URI of a session names no user"))
	}
	// An empty session that stays is of no effect.
	_ = c.do(ctx, person, rest.Call{Method: "DELETE", Path: sessionPath(made.ID, "")}, nil)
	c.roots.Store(person, root)
	return root, nil
}

// own returns an error if a person other than the owner would use the memory of somebody
// else: a key can belong to one user, and the server then ignores the user of a call.
func (c *client) own(ctx context.Context, person string) error {
	if person == "" {
		return nil
	}
	root, err := c.root(ctx, person)
	if err != nil {
		return err
	}
	owners, err := c.root(ctx, "")
	if err != nil {
		return err
	}
	if root != "viking://user/"+person || root == owners {
		return &provider.Error{Class: provider.Refused, Text: label + " does not tell people apart: " +
			"the API key belongs to one user, or somebody has the name of the owner's user; use a root key, or set OPENVIKING_USER"}
	}
	return nil
}

// encode returns v as JSON for the model.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return `{"error":"the result cannot be shown"}`
	}
	return strings.TrimSpace(b.String())
}
