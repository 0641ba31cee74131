package openviking

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/shorten"
)

// maxEntries is the largest number of entries of a directory that are shown.
const maxEntries = 50

// forgettable matches the memory files of a user.
var forgettable = lazyregexp.New(`^viking://user/(?:[^/?#]+/)?(?:peers/[^/?#]+/)?memories/(?:[^/?#]+/)*[^/?#]+\.md$`)

func tools() []provider.Tool {
	return []provider.Tool{
		{Name: "viking_search", Description: "Search memories and resources by meaning. Returns URIs with abstracts; read them with viking_read. Mode deep takes the conversation into account and is slower.", Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"what to look for"},"mode":{"type":"string","enum":["auto","fast","deep"],"description":"default auto"},"scope":{"type":"string","description":"viking:// URI below which to search"},"limit":{"type":"integer","minimum":1,"maximum":100,"description":"default 10"}},"required":["query"]}`)},
		{Name: "viking_read", Description: "Read one viking:// URI, or up to 3: abstract (about 100 tokens), overview (about 2,000 tokens, the default) or full.", Schema: json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string"},"uris":{"type":"array","items":{"type":"string"},"maxItems":3},"level":{"type":"string","enum":["abstract","overview","full"]}}}`)},
		{Name: "viking_browse", Description: "List what is stored: tree and list show a directory, stat one entry.", Schema: json.RawMessage(`{"type":"object","properties":{"action":{"type":"string","enum":["tree","list","stat"]},"path":{"type":"string","description":"viking:// URI, default viking://"}},"required":["action"]}`)},
		{Name: "viking_remember", Description: "Store a fact for later conversations.", Writes: true, Schema: json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"},"category":{"type":"string","enum":["preference","entity","event","case","pattern"],"description":"default preference"}},"required":["content"]}`)},
		{Name: "viking_forget", Description: "Delete one memory file by the URI that viking_search or viking_browse shows.", Writes: true, Schema: json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string","description":"URI of a .md file below …/memories/"}},"required":["uri"]}`)},
		{Name: "viking_add_resource", Description: "Add a document, web page or repository to the resources: an address, or a file of this machine.", Writes: true, Owners: true, Schema: json.RawMessage(`{"type":"object","properties":{"url":{"type":"string","description":"http, https, ssh or git address, or the path of a file"},"reason":{"type":"string"},"to":{"type":"string","description":"URI that it gets"},"parent":{"type":"string","description":"URI of the directory in which it is put"},"instruction":{"type":"string"},"wait":{"type":"boolean"},"timeout":{"type":"number"}},"required":["url"]}`)},
	}
}

// input holds the parameters of all tools.
type input struct {
	Query       string   `json:"query"`
	Mode        string   `json:"mode"`
	Scope       string   `json:"scope"`
	Limit       int      `json:"limit"`
	URI         string   `json:"uri"`
	URIs        []string `json:"uris"`
	Level       string   `json:"level"`
	Action      string   `json:"action"`
	Path        string   `json:"path"`
	Content     string   `json:"content"`
	Category    string   `json:"category"`
	URL         string   `json:"url"`
	Reason      string   `json:"reason"`
	To          string   `json:"to"`
	Parent      string   `json:"parent"`
	Instruction string   `json:"instruction"`
	Wait        bool     `json:"wait"`
	Timeout     float64  `json:"timeout"`
}

// A problem is an error of the input, which the model can correct.
type problem string

func (p problem) Error() string { return string(p) }

func (c *client) Call(ctx context.Context, s provider.Scope, tool string, raw json.RawMessage) (string, error) {
	run := map[string]func(context.Context, provider.Scope, input) (any, error){
		"viking_search": c.toolSearch, "viking_read": c.toolRead, "viking_browse": c.toolBrowse,
		"viking_remember": c.toolRemember, "viking_forget": c.toolForget, "viking_add_resource": c.toolAdd,
	}[tool]
	if run == nil {
		return encode(map[string]string{"error": "unknown tool " + tool}), nil
	}
	var in input
	if err := json.Unmarshal(raw, &in); err != nil {
		return encode(map[string]string{"error": "the parameters are not valid: " + err.Error()}), nil
	}
	for _, uri := range slices.Concat([]string{in.Scope, in.URI, in.Path, in.To, in.Parent}, in.URIs) {
		if uri != "" && !visible(s.Person, uri) && !(tool == "viking_browse" && uri == "viking://") {
			return encode(map[string]string{"error": uri + " is not a viking:// URI that may be used here"}), nil
		}
	}
	err := c.own(ctx, s.Person)
	var v any
	if err == nil {
		v, err = run(ctx, s, in)
	}
	if _, ok := errors.AsType[problem](err); ok || err != nil && provider.ClassOf(err) == provider.Refused { // the server is well
		return encode(map[string]string{"error": err.Error()}), nil
	}
	if err != nil {
		return "", err
	}
	return encode(v), nil
}

func (c *client) toolSearch(ctx context.Context, s provider.Scope, in input) (any, error) {
	if strings.TrimSpace(in.Query) == "" {
		return nil, problem("query is required")
	}
	hits, err := c.search(ctx, s, search{Query: in.Query, Target: in.Scope, Limit: min(max(cmp.Or(in.Limit, 10), 1), 100)}, in.Mode == "deep")
	if err != nil {
		return nil, err
	}
	type result struct {
		URI      string   `json:"uri"`
		Type     string   `json:"type"`
		Score    float64  `json:"score"`
		Abstract string   `json:"abstract"`
		Related  []string `json:"related,omitempty"`
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.Score, a.Score) })
	results := []result{}
	for _, h := range hits {
		r := result{URI: h.URI, Type: h.Type, Score: h.Score, Abstract: h.Abstract}
		for _, other := range h.Related {
			if visible(s.Person, other.URI) && len(r.Related) < 3 {
				r.Related = append(r.Related, other.URI)
			}
		}
		results = append(results, r)
	}
	return map[string]any{"results": results, "total": len(results)}, nil
}

// read returns the content of a file.
func (c *client) read(ctx context.Context, person, uri string, limit time.Duration) (string, error) {
	var text string
	return text, c.do(ctx, person, rest.Call{Method: "GET", Path: "/api/v1/content/read", Query: uriQuery(uri), Timeout: limit, Reads: true}, &text)
}

// An entry is a file or directory.
type entry struct {
	Name     string `json:"name"`
	URI      string `json:"uri"`
	IsDir    bool   `json:"isDir"`
	Size     int64  `json:"size,omitempty"`
	Abstract string `json:"abstract,omitempty"`
}

func (c *client) stat(ctx context.Context, person, uri string) (entry, error) {
	var e entry
	err := c.do(ctx, person, rest.Call{Method: "GET", Path: "/api/v1/fs/stat", Query: uriQuery(uri), Reads: true}, &e)
	if provider.IsMissing(err) {
		return e, problem(uri + " does not exist")
	}
	return e, err
}

func (c *client) toolRead(ctx context.Context, s provider.Scope, in input) (any, error) {
	uris := in.URIs
	if in.URI != "" {
		uris = []string{in.URI}
	}
	limit, known := map[string]int{"abstract": 1200, "overview": 4000, "full": 8000}[cmp.Or(in.Level, "overview")]
	switch {
	case len(uris) == 0 || len(uris) > 3:
		return nil, problem("uri, or 1 to 3 uris, are required")
	case !known:
		return nil, problem("level must be abstract, overview or full")
	case len(uris) > 1 && in.Level == "full":
		limit = 2500
	}
	type result struct {
		URI     string `json:"uri"`
		Level   string `json:"level"`
		Content string `json:"content,omitempty"`
		Error   string `json:"error,omitempty"`
	}
	var results []result
	for _, uri := range uris {
		r := result{URI: uri, Level: cmp.Or(in.Level, "overview")}
		text, err := c.text(ctx, s.Person, uri, r.Level)
		if err != nil && (len(uris) == 1 || ctx.Err() != nil) {
			return nil, err
		}
		if err != nil {
			r.Error = err.Error()
		}
		r.Content = shorten.To(text, limit)
		results = append(results, r)
	}
	if len(uris) == 1 {
		return results[0], nil
	}
	return map[string]any{"results": results}, nil
}

// text returns the content of a file, or the summary of a directory.
func (c *client) text(ctx context.Context, person, uri, level string) (string, error) {
	e, err := c.stat(ctx, person, uri)
	if err != nil {
		return "", err
	}
	if !e.IsDir {
		return c.read(ctx, person, uri, 0)
	}
	path := "/api/v1/content/overview"
	if level == "abstract" {
		path = "/api/v1/content/abstract"
	}
	var text string
	return text, c.do(ctx, person, rest.Call{Method: "GET", Path: path, Query: uriQuery(uri), Reads: true}, &text)
}

func (c *client) toolBrowse(ctx context.Context, s provider.Scope, in input) (any, error) {
	path := cmp.Or(in.Path, "viking://")
	if s.Person != "" && path == "viking://" {
		path = "viking://user/" + s.Person
	}
	switch in.Action {
	case "stat":
		return c.stat(ctx, s.Person, path)
	case "tree", "list":
	default:
		return nil, problem("action must be tree, list or stat")
	}
	call := map[string]string{"tree": "/api/v1/fs/tree", "list": "/api/v1/fs/ls"}[in.Action]
	entries := []entry{}
	if err := c.do(ctx, s.Person, rest.Call{Method: "GET", Path: call, Query: uriQuery(path), Reads: true}, &entries); err != nil {
		if provider.IsMissing(err) {
			return nil, problem(path + " does not exist")
		}
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return !visible(s.Person, e.URI) })
	out := map[string]any{"path": path, "entries": entries[:min(len(entries), maxEntries)]}
	if len(entries) > maxEntries {
		out["truncated"] = fmt.Sprintf("%d of %d entries", maxEntries, len(entries))
	}
	return out, nil
}

func (c *client) toolRemember(ctx context.Context, s provider.Scope, in input) (any, error) {
	directory := map[string]string{"preference": "preferences", "entity": "entities", "event": "events", "case": "cases", "pattern": "patterns"}[cmp.Or(in.Category, "preference")]
	switch {
	case strings.TrimSpace(in.Content) == "":
		return nil, problem("content is required")
	case directory == "":
		return nil, problem("category must be preference, entity, event, case or pattern")
	case utf8.RuneCountInString(in.Content) > 25_000:
		return nil, problem("content is longer than 25,000 characters")
	}
	uri := c.memoryURI(directory, in.Content)
	if err := c.write(ctx, s.Person, uri, in.Content); err != nil {
		return nil, err
	}
	return map[string]string{"status": "stored", "uri": uri}, nil
}

func (c *client) toolForget(ctx context.Context, s provider.Scope, in input) (any, error) {
	if !forgettable().MatchString(in.URI) || strings.HasSuffix(in.URI, "/.abstract.md") || strings.HasSuffix(in.URI, "/.overview.md") || strings.Contains(in.URI, "/../") {
		return nil, problem("uri must be that of a .md file below …/memories/ of a user")
	}
	e, err := c.stat(ctx, s.Person, in.URI)
	if err != nil {
		return nil, err
	}
	if e.IsDir {
		return nil, problem("uri must be that of a file")
	}
	if err := c.remove(ctx, s.Person, in.URI, false); err != nil {
		return nil, err
	}
	return map[string]string{"status": "deleted", "uri": in.URI}, nil
}
