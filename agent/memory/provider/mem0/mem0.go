// Package mem0 is the client of Mem0: its cloud, or a server of one's own. Both search
// by meaning. A finished turn is given to a model there that extracts facts; entries of
// the built-in memory are stored as they are.
package mem0

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/secret"
	"hermesd/internal/shorten"
)

const (
	cloud = "https://api.mem0.ai"
	// placeholder is the user ID that upstream's wizard writes: it means none.
	placeholder = "hermes-user"
	recalled    = 10  // memories of a recall
	maxFound    = 50  // memories of mem0_search
	threshold   = 0.1 // least score of a memory that the cloud returns
)

// A client is a provider.Provider.
type client struct {
	rest   *rest.Client
	own    bool   // a server of one's own: other paths, and it processes writes at once
	user   string // of the owner; "": the ID on the platform
	agent  string
	rerank bool
}

// Open returns the provider that is configured by MEM0_MODE, MEM0_API_KEY, MEM0_HOST,
// MEM0_USER_ID and MEM0_AGENT_ID, and by mem0.json in the Hermes home, whose values
// come first.
func Open(s provider.Source) (provider.Provider, []string, error) {
	file, _, err := settings.Read(s.Planned, filepath.Join(s.Home, "mem0.json"))
	if err != nil {
		return nil, nil, fmt.Errorf("mem0: %w", err)
	}
	get := func(key, env string) string { return cmp.Or(file.Text(key), s.Getenv(env)) }
	key, host := secret.Value(get("api_key", "MEM0_API_KEY")), get("host", "MEM0_HOST")
	c := &client{own: host != "", user: get("user_id", "MEM0_USER_ID"), agent: cmp.Or(get("agent_id", "MEM0_AGENT_ID"), "hermes"), rerank: file.Bool("rerank", false)}
	if c.user == placeholder {
		c.user = ""
	}
	mode := cmp.Or(get("mode", "MEM0_MODE"), "platform")
	file.Skip("oss")
	warnings := file.Unknown()
	switch {
	case mode == "oss":
		return nil, warnings, fmt.Errorf("%w: Mem0 mode oss runs only inside Python: start its server and set host, or set mode platform. Nothing was deleted", provider.ErrImpossible)
	case key == "" && !c.own:
		return nil, warnings, fmt.Errorf("mem0: there is no key: set MEM0_API_KEY (https://app.mem0.ai), or set host to the URL of your own server")
	case mode != "platform":
		warnings = append(warnings, fmt.Sprintf("mem0: mode %q is unknown, platform is used", mode))
	}
	if c.rest, err = rest.New("Mem0", cmp.Or(host, cloud), key, s); err != nil {
		return nil, warnings, err
	}
	c.rest.Header = func() http.Header {
		switch {
		case !c.own:
			return http.Header{"Authorization": {"Token " + key.Reveal()}}
		case key != "":
			return http.Header{"X-Api-Key": {key.Reveal()}}
		}
		return http.Header{} // of a server that asks for none
	}
	return c, warnings, nil
}

const header = `# Mem0 Memory
Mem0 holds what is known of this person from earlier conversations; what fits a message is recalled with it. Call mem0_search before answering what may depend on more than that, several times with other words for a question with several parts. mem0_add stores a fact as it is; mem0_update and mem0_delete change one by the ID that mem0_search shows.`

// About implements provider.Provider.
func (c *client) About() provider.About {
	a := provider.About{
		Name: "mem0", Label: "Mem0", Mode: "platform", Place: c.rest.Base, Owner: c.user, Header: header, Tools: tools(), Wait: true, PerID: c.user == "",
		Cannot: "what Mem0 has learned from one conversation: only single memories and everything of a person",
	}
	if c.own {
		a.Mode = "own server"
	}
	return a
}

// userID returns the user ID of a scope.
func (c *client) userID(s provider.Scope) string {
	if s.Person == "" {
		return cmp.Or(c.user, s.UserID, placeholder)
	}
	if s.Person == c.user || s.Person == placeholder {
		return s.Person + "-person" // somebody else who has the owner's name
	}
	return s.Person
}

// path returns the path of the cloud, or that of an own server.
func (c *client) path(cloud, own string) string {
	if c.own {
		return own
	}
	return cloud
}

// Check implements provider.Provider. An own server has no call that checks only the
// key, so it is asked for a memory.
func (c *client) Check(ctx context.Context) (h provider.Health, err error) {
	if c.own {
		_, err := c.search(ctx, question{user: c.userID(provider.Scope{}), query: "hermes", top: 1})
		return h, err
	}
	var out struct {
		Email string `json:"user_email"`
	}
	err = c.rest.Do(ctx, rest.Call{Method: "GET", Path: "/v1/ping/", Reads: true}, &out)
	if out.Email != "" {
		h.Detail = "account " + shorten.Line(out.Email, 100)
	}
	return h, err
}

// Standing implements provider.Provider.
func (*client) Standing(context.Context, provider.Scope) (string, error) { return "", nil }

type question struct {
	user, query string
	top         int
	rerank      bool
	threshold   float64
}

type found struct {
	ID     string  `json:"id"`
	Memory string  `json:"memory"`
	Score  float64 `json:"score"`
}

func (c *client) search(ctx context.Context, q question) ([]found, error) {
	body := map[string]any{"query": q.query, "top_k": q.top, "filters": map[string]string{"user_id": q.user}}
	if !c.own {
		body["rerank"], body["threshold"] = q.rerank, q.threshold
	}
	var out struct {
		Results []found `json:"results"`
	}
	if err := c.rest.Do(ctx, rest.Call{Method: "POST", Path: c.path("/v3/memories/search/", "/search"), Body: body, Reads: true}, &out); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out.Results, func(f found) bool { return f.Memory == "" }), nil
}

// Recall implements provider.Provider. It finds what any agent has stored about the
// person.
func (c *client) Recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	results, err := c.search(ctx, question{user: c.userID(s), query: query, top: recalled, rerank: c.rerank, threshold: threshold})
	var items []provider.Item
	for _, r := range results {
		items = append(items, provider.Item{ID: r.ID, Text: r.Memory})
	}
	return items, err
}

// Close implements provider.Provider.
func (c *client) Close() error {
	c.rest.Close()
	return nil
}
