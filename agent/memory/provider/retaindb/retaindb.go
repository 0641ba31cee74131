// Package retaindb is a client of RetainDB: memories of users in projects, found by
// meaning, and a file store. Its hosted service and its open-source server differ in
// some calls.
//
// The owner's memory is where upstream has it: in the configured project, under the ID
// that the owner has on the platform. Every other person has a project of their own,
// because some memories of a project are found for all its users.
package retaindb

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/secret"
	"hermesd/internal/shorten"
)

const (
	label       = "RetainDB"
	defaultBase = "https://api.retaindb.com"
	agentID     = "hermes"
	readTimeout = 8 * time.Second
	maxTokens   = 1200  // of a context, as upstream asks
	maxItem     = 1_000 // characters of an item that is recalled
	maxQuery    = 2_000 // characters; the open-source server refuses 5,000 UTF-16 units
)

type client struct {
	rest    *rest.Client
	project string
	soul    string // what the agent is told about itself; "": nothing
	open    func(path string) (fs.File, error)
	backlog *backlog

	mu     sync.Mutex // guards the field below
	seeded bool       // the service has soul
}

// Open returns the client that RETAINDB_*, and the section memory.retaindb, describe, with
// warnings for the operator.
func Open(s provider.Source) (p provider.Provider, warnings []string, err error) {
	key := secret.Value(strings.TrimSpace(strings.TrimPrefix(s.Getenv("RETAINDB_API_KEY"), "Bearer ")))
	if key == "" {
		return nil, nil, errors.New("RetainDB: RETAINDB_API_KEY is missing: make a key at https://www.retaindb.com, or on your own server, and write it to .env")
	}
	raw := s.Section
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	section, err := settings.Parse("memory.retaindb", raw)
	if err != nil {
		return nil, nil, fmt.Errorf("RetainDB: %w", err)
	}
	set := func(variable, name string) string {
		return cmp.Or(strings.TrimSpace(s.Getenv(variable)), section.Text(name))
	}
	c := &client{project: cmp.Or(set("RETAINDB_PROJECT", "project"), projectOf(s)), open: s.Open}
	base := cmp.Or(set("RETAINDB_BASE_URL", "base_url"), defaultBase)
	warnings = section.Unknown()
	if c.rest, err = rest.New(label, base, key, s); err != nil {
		return nil, nil, err
	}
	c.rest.Header = func() http.Header {
		return http.Header{"Authorization": {"Bearer " + key.Reveal()}, "X-Sdk-Runtime": {"hermes-plugin"}}
	}
	soul, err := os.ReadFile(filepath.Join(s.Home, "SOUL.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		warnings = append(warnings, "RetainDB is not told about SOUL.md: "+err.Error())
	}
	c.soul = strings.TrimSpace(strings.ToValidUTF8(string(soul), "\uFFFD"))
	backlog, warning := readBacklog(s.Home)
	if c.backlog = backlog; warning != "" {
		warnings = append(warnings, warning)
	}
	return c, warnings, nil
}

// projectOf returns the project of a home that names none, as upstream does.
func projectOf(s provider.Source) string {
	switch name := cmp.Or(s.Profile, filepath.Base(s.Home)); name {
	case ".", "/", ".hermes":
		return "default"
	default:
		return "hermes-" + name
	}
}

func (c *client) About() provider.About {
	return provider.About{
		Name: "retaindb", Label: label, Place: c.rest.Base, Tools: tools(), Wait: true, PerID: true,
		Header: "# RetainDB\nActive. retaindb_search finds memories, retaindb_remember keeps a fact, retaindb_profile shows what is known about the person, retaindb_context what matters for a task.",
		Cannot: "memories, which RetainDB only marks as expired, what it has stored for a whole project, and uploaded files",
	}
}

func (c *client) Close() error {
	c.rest.Close()
	return nil
}

// A scope says where a person's memories are.
type scope struct {
	Project string `json:"project"`
	User    string `json:"user_id"`
	Session string `json:"session_id,omitempty"`
}

func (c *client) scope(s provider.Scope) scope {
	if s.Person == "" {
		return scope{c.project, cmp.Or(s.UserID, "default"), s.Session}
	}
	sum := sha256.Sum256([]byte(s.Person)) // projects are the same regardless of case and punctuation
	return scope{c.project + "-" + s.Person + "-" + hex.EncodeToString(sum[:4]), s.Person, s.Session}
}

func (s scope) query() url.Values {
	return url.Values{"project": {s.Project}, "include_pending": {"true"}}
}

// call makes a call; read is whether it changes nothing.
func (c *client) call(ctx context.Context, read bool, call rest.Call, out any) error {
	call.Reads = read
	if strings.HasPrefix(call.Path, "/v1/memory") || strings.HasPrefix(call.Path, "/v1/context") { // which take this key only
		header := http.Header{"X-Api-Key": {c.rest.Key.Reveal()}}
		maps.Copy(header, call.Header)
		call.Header = header
	}
	if call.Timeout == 0 {
		call.Timeout = rest.WriteTimeout
		if read {
			call.Timeout = readTimeout
		}
	}
	return c.rest.Do(ctx, call, out)
}

// missing reports whether an error is that there is no such object or path.
func missing(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed)
}

// either makes a call and, if the server has no such path, the other.
func (c *client) either(ctx context.Context, read bool, first, second rest.Call, out any) error {
	err := c.call(ctx, read, first, out)
	if missing(err) {
		err = c.call(ctx, read, second, out)
	}
	return err
}

// A memory is a memory of a profile or a session, or a result of a context query.
type memory struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Pending bool   `json:"pending"`
}

type memories struct {
	Memories []memory `json:"memories"`
}

func (c *client) profile(ctx context.Context, s scope, out any) error {
	old := url.Values{"project": {s.Project}, "user_id": {s.User}, "limit": {"200"}}
	return c.either(ctx, true,
		rest.Call{Method: http.MethodGet, Path: "/v1/memory/profile/" + url.PathEscape(s.User), Query: s.query()},
		rest.Call{Method: http.MethodGet, Path: "/v1/memories", Query: old}, out)
}

func (c *client) context(ctx context.Context, s scope, query string, out any) error {
	return c.call(ctx, true, rest.Call{Method: http.MethodPost, Path: "/v1/context/query", Body: struct {
		scope
		Query     string `json:"query"`
		Include   bool   `json:"include_memories"`
		MaxTokens int    `json:"max_tokens"`
	}{s, cut(query), true, maxTokens}}, out)
}

func (c *client) search(ctx context.Context, s scope, query string, limit int, out any) error {
	return c.call(ctx, true, rest.Call{Method: http.MethodPost, Path: "/v1/memory/search", Body: struct {
		scope
		Query   string `json:"query"`
		Limit   int    `json:"top_k"`
		Pending bool   `json:"include_pending"`
	}{s, cut(query), limit, true}}, out)
}

func cut(query string) string { return query[:shorten.Offset(query, maxQuery)] }

func (c *client) Check(ctx context.Context) (provider.Health, error) {
	return provider.Health{}, c.profile(ctx, c.scope(provider.Scope{}), new(memories))
}

func (c *client) Recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	if query = strings.TrimSpace(query); query == "" {
		return nil, nil
	}
	var out struct {
		Results []memory `json:"results"`
	}
	if err := c.context(ctx, c.scope(s), query, &out); err != nil {
		return nil, err
	}
	var items []provider.Item
	seen := map[string]bool{}
	for _, m := range out.Results {
		text := shorten.Line(m.Content, maxItem)
		if text == "" || seen[text] {
			continue
		}
		seen[text] = true
		items = append(items, provider.Item{ID: m.ID, Text: text})
	}
	return items, nil
}
