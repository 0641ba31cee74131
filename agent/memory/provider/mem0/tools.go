package mem0

import (
	"context"
	"encoding/json"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/agent/memory/provider/settings"
)

func tools() []provider.Tool {
	return []provider.Tool{
		{
			Name:        "mem0_search",
			Description: "Searches what is known of the person by meaning; the best comes first. Use it before answering anything that may depend on their preferences, history, people, projects or earlier decisions. Search several times with other words if a question has several parts.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What to search for."},"top_k":{"type":"integer","description":"Number of results (default 10, at most 50)."},"rerank":{"type":"boolean","description":"Sort the results again by relevance; only in Mem0's cloud (default false)."}},"required":["query"]}`),
		},
		{
			Name:        "mem0_add",
			Description: "Stores a lasting fact about the person, word for word. Use it when they state a preference, a correction, a decision or a personal detail that later conversations need; not for small talk, and not for what is already stored.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"content":{"type":"string","description":"The fact."}},"required":["content"]}`),
			Writes:      true,
		},
		{
			Name:        "mem0_update",
			Description: "Replaces the text of a memory, by its ID from mem0_search. Use it when a stored fact has changed or was wrong.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"memory_id":{"type":"string","description":"ID of the memory."},"text":{"type":"string","description":"The new text."}},"required":["memory_id","text"]}`),
			Writes:      true,
		},
		{
			Name:        "mem0_delete",
			Description: "Deletes a memory, by its ID from mem0_search. Use it when the person asks to forget it or it is obsolete; if it has only changed, use mem0_update.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"memory_id":{"type":"string","description":"ID of the memory."}},"required":["memory_id"]}`),
			Writes:      true,
		},
	}
}

// required are the parameters that a tool must have.
var required = map[string][]string{
	"mem0_search": {"query"},
	"mem0_add":    {"content"},
	"mem0_update": {"memory_id", "text"},
	"mem0_delete": {"memory_id"},
}

// Call implements provider.Provider.
func (c *client) Call(ctx context.Context, s provider.Scope, tool string, input json.RawMessage) (string, error) {
	names, ok := required[tool]
	if !ok {
		return refused("Unknown tool: " + tool), nil
	}
	in, err := settings.Parse("the input of "+tool, input)
	if err != nil {
		return refused(err.Error()), nil
	}
	for _, name := range names {
		if in.Text(name) == "" {
			return refused("Missing required parameter: " + name), nil
		}
	}
	id := in.Text("memory_id")
	switch tool {
	case "mem0_search":
		q := question{user: c.userID(s), query: in.Text("query"), top: min(max(in.Int("top_k", recalled), 1), maxFound), rerank: in.Bool("rerank", c.rerank), threshold: threshold}
		results, err := c.search(ctx, q)
		switch {
		case err != nil:
			return "", err
		case len(results) == 0:
			return answer(map[string]any{"result": "No relevant memories found."}), nil
		}
		return answer(map[string]any{"results": results, "count": len(results)}), nil
	case "mem0_add":
		out, err := c.add(ctx, s, false, message{"user", in.Text("content")})
		switch {
		case err != nil:
			return "", err
		case out.Event != "":
			return answer(map[string]any{"result": "Fact queued for storage.", "event_id": out.Event}), nil
		}
		return answer(map[string]any{"result": "Fact stored.", "event_id": nil}), nil
	}
	if err := c.owns(ctx, s, id); err != nil {
		return changed("", id, err)
	}
	if tool == "mem0_update" {
		err := c.rest.Do(ctx, rest.Call{Method: "PUT", Path: c.memoryPath(id), Body: map[string]string{"text": in.Text("text")}, Timeout: rest.WriteTimeout}, nil)
		return changed("Memory updated.", id, err)
	}
	return changed("Memory deleted.", id, c.remove(ctx, id))
}

// owns returns an error if a memory is not one of the person: a key reaches those of all.
func (c *client) owns(ctx context.Context, s provider.Scope, id string) error {
	if !isID(id) {
		return noMemory(id)
	}
	var of struct {
		User string `json:"user_id"`
	}
	err := c.rest.Do(ctx, rest.Call{Method: "GET", Path: c.memoryPath(id), Reads: true}, &of)
	if err == nil && of.User != c.userID(s) {
		return noMemory(id)
	}
	return err
}

// changed returns the result of a tool that changes a memory.
func changed(result, id string, err error) (string, error) {
	switch {
	case gone(err):
		return refused("Memory not found: " + id), nil
	case err != nil:
		return "", err
	}
	return answer(map[string]any{"result": result, "memory_id": id}), nil
}

// refused returns the result of a call that the model must make differently.
func refused(text string) string { return answer(map[string]any{"error": text}) }

func answer(v any) string {
	out, _ := json.Marshal(v) // texts and numbers
	return string(out)
}
