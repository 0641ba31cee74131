package hindsight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
)

func tools() []provider.Tool {
	return []provider.Tool{
		{
			Name:        "hindsight_retain",
			Description: "Stores information in long-term memory. Hindsight extracts facts and the people and things they are about.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"content":{"type":"string","description":"What to store."},"context":{"type":"string","description":"A short label, such as 'user preference' or 'project decision'."},"tags":{"type":"array","items":{"type":"string"},"description":"Tags in addition to the configured ones."}},"required":["content"]}`),
			Writes:      true,
		},
		{
			Name:        "hindsight_recall",
			Description: "Searches long-term memory by meaning, words and relations; the best comes first.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What to search for."}},"required":["query"]}`),
		},
		{
			Name:        "hindsight_reflect",
			Description: "Answers a question from all of long-term memory, with reasons. It is slower than hindsight_recall.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"The question."}},"required":["query"]}`),
		},
	}
}

const nothing = "No relevant memories found."

// Call implements provider.Provider.
func (c *client) Call(ctx context.Context, s provider.Scope, tool string, input json.RawMessage) (string, error) {
	required := map[string]string{"hindsight_retain": "content", "hindsight_recall": "query", "hindsight_reflect": "query"}[tool]
	if required == "" {
		return refused("Unknown tool: " + tool), nil
	}
	in, err := settings.Parse("the input of "+tool, input)
	if err != nil {
		return refused(err.Error()), nil
	}
	text := in.Text(required)
	if text == "" {
		return refused("Missing required parameter: " + required), nil
	}
	switch tool {
	case "hindsight_retain":
		it := c.item(s, text, time.Now(), 1)
		it.Context = in.Text("context")
		for _, tag := range in.List("tags") {
			if !slices.Contains(it.Tags, tag) {
				it.Tags = append(it.Tags, tag)
			}
		}
		_, err := c.retain(ctx, s, it, false, "")
		return result("Memory stored successfully.", err)
	case "hindsight_recall":
		items, err := c.recall(ctx, s, text)
		var lines []string
		for i, item := range items {
			lines = append(lines, fmt.Sprintf("%d. %s", i+1, item.Text))
		}
		return result(strings.Join(lines, "\n"), err)
	}
	answer, err := c.reflect(ctx, s, text)
	return result(answer, err)
}

// refused returns the result of a call that the model must make differently.
func refused(text string) string { return object("error", text) }

func result(text string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if text == "" {
		text = nothing
	}
	return object("result", text), nil
}

func object(key, text string) string {
	out, _ := json.Marshal(map[string]string{key: text}) // a text
	return string(out)
}
