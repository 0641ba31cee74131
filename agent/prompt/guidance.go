package prompt

import (
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// guidance says what the model must know about the gateway and its tools: of
// each tool only if it is offered.
func guidance(in Inputs) string {
	parts := []string{text("gateway.md")}
	for _, g := range []struct{ tool, text string }{
		{"memory", "guidance/memory.md"},
		{"session_search", "guidance/session_search.md"},
		{"skill_manage", "guidance/skills.md"},
	} {
		if offers(in.Tools, g.tool) {
			parts = append(parts, text(g.text))
		}
	}
	for _, g := range in.Guidance {
		parts = append(parts, foreign(g))
	}
	if len(in.Tools) > 0 && in.Enforce.Covers(in.Model) {
		parts = append(parts, text("guidance/enforcement.md"))
	}
	return join(parts)
}

// offers reports whether one of names is among the tools.
func offers(tools []llm.Tool, names ...string) bool {
	return slices.ContainsFunc(tools, func(t llm.Tool) bool { return slices.Contains(names, t.Name) })
}

// An Enforcement says which models are told to use their tools instead of
// talking about it. The zero Enforcement is "auto".
type Enforcement struct {
	names string // substrings of model names, with a blank between them; "" is auto
}

const (
	everyModel = "*"
	noModel    = "-"
)

// autoModels are in the names of the models that need to be told.
const autoModels = "gpt codex gemini gemma grok"

// ParseEnforcement reads the setting agent.tool_use_enforcement: "auto", a word
// for on or off, or a list of what model names contain. Nothing at all is auto.
func ParseEnforcement(values ...string) (Enforcement, error) {
	var names []string
	for _, v := range values {
		v = strings.ToLower(strings.TrimSpace(v))
		switch {
		case v == "" || strings.ContainsAny(v, " \t\n"):
			return Enforcement{}, fmt.Errorf("agent.tool_use_enforcement: %q is no part of a model's name", v)
		case slices.Contains([]string{"auto", "true", "always", "yes", "on", "false", "never", "no", "off"}, v) && len(values) > 1:
			return Enforcement{}, fmt.Errorf("agent.tool_use_enforcement: %q cannot stand in a list; use auto, on, off, or a list of parts of model names", v)
		}
		names = append(names, v)
	}
	switch strings.Join(names, " ") {
	case "", "auto":
		return Enforcement{}, nil
	case "true", "always", "yes", "on":
		return Enforcement{everyModel}, nil
	case "false", "never", "no", "off":
		return Enforcement{noModel}, nil
	}
	return Enforcement{strings.Join(names, " ")}, nil
}

// Covers reports whether the model of that name is told.
func (e Enforcement) Covers(model string) bool {
	names := e.names
	switch names {
	case everyModel:
		return true
	case noModel:
		return false
	case "":
		names = autoModels
	}
	model = strings.ToLower(model)
	return slices.ContainsFunc(strings.Fields(names), func(n string) bool { return strings.Contains(model, n) })
}
