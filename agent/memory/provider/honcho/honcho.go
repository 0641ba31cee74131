// Package honcho is the client of Honcho (API v3): it stores what was said as messages
// of two peers, from which the service derives conclusions, and asks the service about
// what it has concluded.
//
// One session of Honcho holds all conversations of a chat, as upstream's gateway does.
package honcho

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/secret"
)

// maxSessions is how many sessions are remembered as known to the server.
const maxSessions = 1000

// client implements provider.Provider.
type client struct {
	config
	rest   *rest.Client
	source provider.Source

	mu     sync.Mutex // guards the fields below
	token  secret.Value
	opened map[string]bool // sessions and their peers that the server has
	others map[string]bool // by session: whether the AI's peer observes others
	turns  map[string]int  // by conversation: number of recalls
}

// Open returns the provider. It reads honcho.json and the environment and accesses no
// network. Each warning names something in the file that has no effect.
func Open(s provider.Source) (p provider.Provider, warnings []string, err error) {
	cfg, warnings, err := load(s)
	if err != nil {
		return nil, nil, err
	}
	c := &client{config: cfg, source: s, token: cfg.key, opened: make(map[string]bool), others: make(map[string]bool), turns: make(map[string]int)}
	if c.rest, err = rest.New("Honcho", cfg.base, cfg.key, s); err != nil {
		return nil, nil, err
	}
	c.rest.Header = c.header
	return c, warnings, nil
}

const header = `# Honcho memory
Honcho remembers what people say in conversations and derives facts about them. `

const useTools = "honcho_search finds stored facts, honcho_reasoning answers a question about a person (slower), honcho_profile reads and sets key facts, honcho_context shows the session, honcho_conclude stores a lasting fact."

// headers end the text of the system prompt by recall mode.
var headers = map[string]string{
	"hybrid":  "What it knows that fits is added to messages. " + useTools,
	"context": "What it knows that fits is added to messages; there are no tools for it.",
	"tools":   "Nothing is added by itself: " + useTools,
}

func (c *client) About() provider.About {
	place := c.base
	if u, err := url.Parse(place); err == nil {
		place = u.Redacted()
	}
	a := provider.About{
		Name: "honcho", Label: "Honcho", Mode: c.mode, Place: place, Header: header + headers[c.mode], Honcho: true, StandingEvery: c.standingEvery,
		NoRecall: c.mode == "tools", NoTools: c.mode == "context", Wait: c.waits, Exact: true, PerID: !c.pin || c.peer == "",
		Cannot: "a single conversation of a chat whose session at Honcho holds others too; facts that Honcho has derived from several sessions, unless all of a person's are deleted",
	}
	if !a.PerID {
		a.Owner = c.user(provider.Scope{})
	}
	if !a.NoTools {
		a.Tools = tools()
	}
	return a
}

func (c *client) Check(ctx context.Context) (provider.Health, error) {
	return provider.Health{Detail: "workspace " + c.workspace}, c.openWorkspace(ctx)
}

func (c *client) Close() error {
	c.rest.Close()
	return nil
}

func (c *client) header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := make(http.Header)
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	return h
}

// renew gets the token of the grant, if there is one.
func (c *client) renew(ctx context.Context, refused secret.Value) (changed bool, err error) {
	if c.grant == nil {
		return false, nil
	}
	token, err := c.grant.token(ctx, c.source, refused)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, c.token = token != c.token, token
	return changed, nil
}

// do makes a call. The path follows that of the workspaces.
func (c *client) do(ctx context.Context, call rest.Call, out any) error {
	call.Path, call.Timeout = "/v3/workspaces"+call.Path, c.timeout
	if call.Timeout == 0 && !call.Reads {
		call.Timeout = rest.WriteTimeout
	}
	if _, err := c.renew(ctx, ""); err != nil {
		return err
	}
	c.mu.Lock()
	used := c.token
	c.mu.Unlock()
	err := c.rest.Do(ctx, call, out)
	if c.grant == nil || err == nil || provider.ClassOf(err) != provider.Auth {
		return err
	}
	changed, failed := c.renew(ctx, used)
	switch {
	case failed != nil:
		return failed
	case changed:
		return c.rest.Do(ctx, call, out)
	}
	return err
}

// get reads something of the workspace.
func (c *client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.do(ctx, rest.Call{Method: http.MethodGet, Path: "/" + c.workspace + path, Query: query, Reads: true}, out)
}

// ask is get for calls that send a body.
func (c *client) ask(ctx context.Context, path string, query url.Values, body, out any) error {
	return c.do(ctx, rest.Call{Method: http.MethodPost, Path: "/" + c.workspace + path, Query: query, Body: body, Reads: true}, out)
}

// change changes something in the workspace.
func (c *client) change(ctx context.Context, method, path string, body, out any) error {
	return c.do(ctx, rest.Call{Method: method, Path: "/" + c.workspace + path, Body: body}, out)
}

type object = map[string]any

func (c *client) openWorkspace(ctx context.Context) error {
	var got struct{ ID string }
	return c.do(ctx, rest.Call{Method: http.MethodPost, Body: object{"id": c.workspace}}, &got)
}

// open makes the session of a conversation with its two peers, unless it is there.
func (c *client) open(ctx context.Context, s provider.Scope) error {
	name, user := c.session(s), c.user(s)
	mark := name + "/" + user
	c.mu.Lock()
	done := c.opened[mark]
	c.mu.Unlock()
	if done {
		return nil
	}
	if err := c.openWorkspace(ctx); err != nil {
		return err
	}
	peers := object{
		user: object{"observe_me": c.observe.User.Me, "observe_others": c.observe.User.Others},
		c.ai: object{"observe_me": c.observe.AI.Me, "observe_others": c.observe.AI.Others},
	}
	var got struct{ ID string }
	if err := c.change(ctx, http.MethodPost, "/sessions", object{"id": name, "peers": peers}, &got); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.opened) >= maxSessions {
		clear(c.opened)
	}
	c.opened[mark] = true
	return nil
}

// closed forgets that a session is there.
func (c *client) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.opened)
}

// A view says who is asked about whom.
type view struct{ observer, about string }

// target returns the query of a view; a peer that is asked about itself has none.
func (v view) target() url.Values {
	if v.observer == v.about {
		return url.Values{}
	}
	return url.Values{"target": {v.about}}
}

// view returns who is asked about a peer in a conversation: the AI's peer if it observes
// others, else the peer itself. What the server says about observation holds.
func (c *client) view(ctx context.Context, s provider.Scope, about string) (view, error) {
	name := c.session(s)
	c.mu.Lock()
	others, known := c.others[name]
	c.mu.Unlock()
	if !known {
		var got struct {
			Others *bool `json:"observe_others"`
		}
		err := c.get(ctx, "/sessions/"+name+"/peers/"+c.ai+"/config", nil, &got)
		if err != nil && !provider.IsMissing(err) {
			return view{}, err
		}
		others = c.observe.AI.Others
		if got.Others != nil {
			others = *got.Others
		}
		if err == nil {
			c.mu.Lock()
			if len(c.others) >= maxSessions {
				clear(c.others)
			}
			c.others[name] = others
			c.mu.Unlock()
		}
	}
	if others {
		return view{c.ai, about}, nil
	}
	return view{about, about}, nil
}
