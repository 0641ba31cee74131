package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// Limits of declared tools and their results.
const (
	maxTools = 16
	maxText  = 30_000 // characters of a result
)

// toolDeclaration is a tool in a manifest.
type toolDeclaration struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Schema      map[string]any `yaml:"schema"`
}

var toolName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// parseTools converts the tools of a manifest; missing lists what is invalid,
// for people.
func parseTools(in []toolDeclaration) (out []llm.Tool, missing []string) {
	if len(in) > maxTools {
		return nil, []string{fmt.Sprintf("there are %d tools, more than %d", len(in), maxTools)}
	}
	seen := map[string]bool{}
	for _, d := range in {
		if d.Schema == nil {
			d.Schema = map[string]any{"type": "object"}
		}
		raw, err := json.Marshal(d.Schema) // with its keys in order
		switch {
		case !toolName.MatchString(d.Name):
			missing = append(missing, fmt.Sprintf("the name of the tool %q is not of a-z, 0-9 and _", d.Name))
		case seen[d.Name]:
			missing = append(missing, fmt.Sprintf("two tools are called %s", d.Name))
		case strings.TrimSpace(d.Description) == "":
			missing = append(missing, fmt.Sprintf("the tool %s has no description", d.Name))
		case err != nil || d.Schema["type"] != "object":
			missing = append(missing, fmt.Sprintf("the schema of the tool %s is not that of an object", d.Name))
		}
		seen[d.Name] = true
		out = append(out, llm.Tool{Name: d.Name, Description: strings.TrimSpace(d.Description), Schema: raw})
	}
	return out, missing
}

// Tools returns the tools that the manifest declares, for all sessions. state
// returns the latest result of Engine.State for a session. A call may be
// repeated after a crash.
func (h *Host) Tools(state func(ctx context.Context, session string) (json.RawMessage, error)) []tool.Tool {
	ts := make([]tool.Tool, 0, len(h.m.Tools))
	for _, t := range h.m.Tools {
		run := func(ctx context.Context, c tool.Call, in json.RawMessage) (string, error) {
			raw, err := state(ctx, c.Session)
			if err != nil {
				return "", fmt.Errorf("the state of the context engine cannot be read: %w", err)
			}
			var k storedState
			if json.Unmarshal(raw, &k) != nil || k.Engine != h.m.Name {
				k.Own = nil
			}
			return h.runTool(ctx, map[string]any{"session": c.Session, "state": k.Own, "name": t.Name, "input": in})
		}
		ts = append(ts, tool.New(tool.Spec{Tool: t, Effect: tool.Pure, MaxResult: maxText}, run))
	}
	return ts
}

// runTool lets the program run a tool.
func (h *Host) runTool(ctx context.Context, params map[string]any) (string, error) {
	var answer struct {
		Text string `json:"text"`
	}
	err := h.call(ctx, "tool", params, &answer)
	var said *rpcError
	switch {
	case errors.As(err, &said):
		return "", fmt.Errorf("the context engine %s says: %s", h.m.Name, oneLine(said.Message))
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("the context engine %s failed: %s", h.m.Name, oneLine(err.Error()))
	case strings.TrimSpace(answer.Text) == "":
		return "(nothing)", nil
	}
	return answer.Text, nil
}

// Preflight implements agent.Preflighter: if the manifest says so, the program
// is asked before the first call of each turn. Without an answer nothing is
// due.
func (e *Engine) Preflight(messages []llm.Message) bool {
	if !e.h.m.Preflight {
		return false
	}
	e.mu.Lock()
	l, state := e.limits, e.state.Own
	e.mu.Unlock()
	var answer struct {
		Compress bool `json:"compress"`
	}
	err := e.h.call(context.Background(), "preflight", map[string]any{
		"session": e.session, "limits": wireLimits(l), "state": state, "messages": withoutRaw(messages),
	}, &answer)
	return err == nil && answer.Compress
}
