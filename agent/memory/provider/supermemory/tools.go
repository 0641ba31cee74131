package supermemory

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/shorten"
)

// tools returns upstream's tools, without their second names.
func (c *client) tools() []provider.Tool {
	tool := func(name, description, properties, required string) provider.Tool {
		if c.containers != nil {
			about, _ := json.Marshal("Container tag; one of " + strings.Join(c.containers, ", ") + ". Default: " + c.tag + ".") // a string
			properties += `,"container_tag":{"type":"string","description":` + string(about) + `}`
		}
		return provider.Tool{Name: "supermemory_" + name, Description: description, Schema: json.RawMessage(`{"type":"object","properties":{` + properties + `}` + required + `}`)}
	}
	tools := []provider.Tool{
		tool("store", "Keep a fact in long-term memory.",
			`"content":{"type":"string","description":"What to remember."},"metadata":{"type":"object","description":"More about it: text, numbers, true or false."}`, `,"required":["content"]`),
		tool("search", "Search long-term memory by meaning.",
			`"query":{"type":"string","description":"What to search for."},"limit":{"type":"integer","description":"Maximum number of results, 1 to 20; default 5."}`, `,"required":["query"]`),
		tool("forget", "Delete a memory: that with an id, or the one that fits a query best.",
			`"id":{"type":"string","description":"The id of the memory."},"query":{"type":"string","description":"A query that finds the memory."}`, ""),
		tool("profile", "Show what long-term memory knows about the person: lasting facts and recent ones.",
			`"query":{"type":"string","description":"A subject, to narrow it."}`, ""),
	}
	tools[0].Writes, tools[2].Writes = true, true
	return tools
}

func (c *client) Call(ctx context.Context, s provider.Scope, tool string, raw json.RawMessage) (string, error) {
	in, err := settings.Parse("the input of "+tool, raw)
	if err != nil {
		return refuse(err.Error()), nil
	}
	content, query, id := in.Text("content"), in.Text("query"), in.Text("id")
	tag, named := c.tagOf(s.Person), ""
	if t := in.Text("container_tag"); t != "" && c.containers != nil {
		named = cleanTag(t)
		if s.Person != "" || !slices.Contains(c.containers, named) {
			return refuse(fmt.Sprintf("container tag %q is not allowed", named)), nil
		}
		tag = named
	}
	var out map[string]any
	switch {
	case tool == "supermemory_store" && content != "":
		out, err = c.store(ctx, tag, content, in.Raw("metadata"))
	case tool == "supermemory_store":
		return refuse("content is required"), nil
	case tool == "supermemory_search" && query != "":
		out, err = c.searchTool(ctx, tag, query, int(in.Number("limit", 5, 1, 20)))
	case tool == "supermemory_search":
		return refuse("query is required"), nil
	case tool == "supermemory_forget" && id+query != "":
		out, err = c.forgetOne(ctx, tag, id, query)
	case tool == "supermemory_forget":
		return refuse("give an id or a query"), nil
	case tool == "supermemory_profile":
		out, err = c.profileTool(ctx, tag, query)
	default:
		return refuse("unknown tool: " + tool), nil
	}
	switch {
	case err != nil && provider.ClassOf(err) == provider.Refused: // the service is well: this is about the input
		return refuse(err.Error()), nil
	case err != nil:
		return "", err
	}
	if named != "" && tool != "supermemory_forget" {
		out["container_tag"] = named
	}
	b, err := json.Marshal(out)
	return string(b), err
}

func refuse(text string) string {
	b, _ := json.Marshal(map[string]string{"error": text}) // strings
	return string(b)
}

func (c *client) store(ctx context.Context, tag, content string, more json.RawMessage) (map[string]any, error) {
	var given map[string]any
	_ = json.Unmarshal(more, &given) // anything else than an object is left out, as upstream does
	metadata := map[string]any{"type": category(content)}
	for name, v := range given {
		switch v.(type) {
		case string, float64, bool: // the service takes nothing else
			metadata[name] = v
		}
	}
	delete(metadata, "source")
	metadata["sm_source"] = "hermes"
	r, err := c.add(ctx, document{Content: content, Tag: tag, Metadata: metadata, Context: c.context})
	preview := content
	if n := shorten.Offset(preview, 80); n < len(preview) {
		preview = preview[:n] + "..."
	}
	return map[string]any{"saved": true, "id": r.ID, "preview": preview}, err
}

func (c *client) search(ctx context.Context, tag, query string, limit int) ([]hit, error) {
	var out struct {
		Results []hit `json:"results"`
	}
	err := c.read(ctx, http.MethodPost, "/v4/search", map[string]any{"q": query, "containerTag": tag, "limit": limit, "searchMode": c.mode}, &out)
	return out.Results, err
}

func (c *client) searchTool(ctx context.Context, tag, query string, limit int) (map[string]any, error) {
	hits, err := c.search(ctx, tag, query, limit)
	type result struct {
		ID         string `json:"id"`
		Content    string `json:"content"`
		Similarity *int   `json:"similarity,omitempty"` // percent
	}
	results := []result{}
	for _, h := range hits {
		r := result{ID: h.ID, Content: h.text()}
		if h.Similarity != nil {
			percent := int(math.Round(min(max(*h.Similarity, 0), 1) * 100))
			r.Similarity = &percent
		}
		results = append(results, r)
	}
	return map[string]any{"results": results, "count": len(results)}, err
}

func (c *client) forgetOne(ctx context.Context, tag, id, query string) (map[string]any, error) {
	out := map[string]any{"forgotten": true, "id": id}
	if id == "" {
		hits, err := c.search(ctx, tag, query, 5)
		switch {
		case err != nil:
			return nil, err
		case len(hits) == 0:
			return map[string]any{"success": false, "message": "No matching memory found to forget."}, nil
		case hits[0].ID == "":
			return map[string]any{"success": false, "message": "Best matching memory has no id."}, nil
		}
		id = hits[0].ID
		out = map[string]any{"success": true, "id": id, "message": fmt.Sprintf("Forgot: %q", shorten.To(hits[0].text(), 100))}
	}
	return out, c.write(ctx, http.MethodDelete, "/v4/memories", map[string]any{"containerTag": tag, "id": id}, new(accepted))
}

func (c *client) profileTool(ctx context.Context, tag, query string) (map[string]any, error) {
	p, err := c.profileOf(ctx, tag, query)
	var parts []string
	for _, x := range []struct {
		title string
		items []string
	}{{"User Profile (Persistent)", p.Profile.Static}, {"Recent Context", p.Profile.Dynamic}} {
		if len(x.items) > 0 {
			parts = append(parts, section(x.title, x.items, math.MaxInt))
		}
	}
	return map[string]any{"profile": strings.Join(parts, "\n\n"), "static_count": len(p.Profile.Static), "dynamic_count": len(p.Profile.Dynamic)}, err
}
