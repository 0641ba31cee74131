package retaindb

import (
	"context"
	"net/http"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/shorten"
)

const (
	maxProfile   = 2_000 // characters of the memories of a profile
	maxAnswer    = 1_000 // characters of what the service has concluded
	maxModel     = 800   // characters of what it knows about the agent
	maxLine      = 320   // characters of a memory in a list, as upstream has it
	modelTimeout = 4 * time.Second
)

// question is what the service is asked about a person.
const question = "What should an assistant know about this person: preferences, goals, current work, how to address them?"

// Standing returns the profile, what the service concludes from it and, for the owner,
// what it knows about the agent. Upstream asks for the last two after each turn; only
// the first has to succeed.
func (c *client) Standing(ctx context.Context, s provider.Scope) (string, error) {
	at := c.scope(s)
	var known memories
	if err := c.profile(ctx, at, &known); err != nil {
		return "", err
	}
	if len(known.Memories) == 0 {
		return "", nil
	}
	parts := []string{list("[RetainDB Profile]", known.Memories, maxProfile)}
	if answer, err := c.ask(ctx, at); err == nil && answer != "" {
		parts = append(parts, "[RetainDB User Synthesis]\n"+shorten.To(answer, maxAnswer))
	}
	if s.Person == "" { // it has been learnt from the owner
		if model, err := c.model(ctx, at); err == nil && model != "" {
			parts = append(parts, "[RetainDB Agent Self-Model]\n"+shorten.To(model, maxModel))
		}
	}
	return strings.Join(parts, "\n\n"), nil
}

// list returns a list below a title, of as many lines as limit characters hold, each
// memory once.
func list(title string, found []memory, limit int) string {
	out := title
	seen := map[string]bool{}
	for _, m := range found {
		line := "\n- " + shorten.Line(m.Content, maxLine)
		if line == "\n- " || seen[line] {
			continue
		}
		if limit -= len([]rune(line)); limit < 0 {
			break
		}
		seen[line] = true
		out += line
	}
	return out
}

// ask returns what the service concludes about a person: by one path on the hosted
// service, by another on the open-source server.
func (c *client) ask(ctx context.Context, s scope) (string, error) {
	const level = "low"
	var out struct {
		Answer string `json:"answer"`
	}
	err := c.either(ctx, true,
		rest.Call{Method: http.MethodPost, Path: askPath(s.User), Body: map[string]any{"project": s.Project, "query": question, "reasoning_level": level}},
		rest.Call{Method: http.MethodPost, Path: "/v1/memory/dialectic", Body: map[string]any{"project": s.Project, "question": question, "user_id": s.User, "reasoning_level": level}},
		&out)
	return strings.TrimSpace(out.Answer), err
}

// model returns what the service knows about the agent.
func (c *client) model(ctx context.Context, s scope) (string, error) {
	var out struct {
		Persona      string   `json:"persona"`
		Instructions []string `json:"persistent_instructions"`
		Style        string   `json:"working_style"`
		Count        int      `json:"memory_count"`
	}
	err := c.call(ctx, true, rest.Call{Method: http.MethodGet, Path: agentPath("model"), Query: s.query(), Timeout: modelTimeout}, &out)
	if err != nil || out.Count == 0 {
		return "", err
	}
	var lines []string
	if out.Persona != "" {
		lines = append(lines, "Persona: "+out.Persona)
	}
	if len(out.Instructions) > 0 {
		lines = append(lines, "Instructions:\n- "+strings.Join(out.Instructions, "\n- "))
	}
	if out.Style != "" {
		lines = append(lines, "Working style: "+out.Style)
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), nil
}
