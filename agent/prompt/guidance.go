package prompt

import (
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// renderGuidance returns the instructions about the gateway and those about
// each offered tool.
func renderGuidance(in Inputs) string {
	gateway, memory := "gateway.md", "guidance/memory.md"
	if in.Short {
		gateway, memory = "gateway_short.md", "guidance/memory_short.md"
	}
	parts := []string{loadText(gateway)}
	for _, g := range []struct{ tool, text string }{
		{"memory", memory},
		{"session_search", "guidance/session_search.md"},
		{"skill_manage", "guidance/skills.md"},
	} {
		if offersAny(in.Tools, g.tool) {
			parts = append(parts, loadText(g.text))
		}
	}
	for _, g := range in.Guidance {
		parts = append(parts, sanitizeUntrusted(g))
	}
	if len(in.Tools) > 0 && in.Enforce.Covers(in.Model) {
		parts = append(parts, loadText("guidance/enforcement.md"))
	}
	return joinParts(parts)
}

// offersAny reports whether one of names is among the tools.
func offersAny(tools []llm.Tool, names ...string) bool {
	return slices.ContainsFunc(tools, func(t llm.Tool) bool { return slices.Contains(names, t.Name) })
}

// An Enforcement selects the models that are instructed to use their tools
// instead of describing what they would do. The zero Enforcement is "auto".
type Enforcement struct {
	names string // substrings of model names, separated by spaces; "" is auto
}

const (
	everyModel = "*"
	noModel    = "-"
)

// autoModels are substrings of the names of the models that need the
// instruction.
const autoModels = "gpt codex gemini gemma grok"

// ParseEnforcement parses the setting agent.tool_use_enforcement: "auto", a
// word for on or off, or a list of substrings of model names. No value is auto.
func ParseEnforcement(values ...string) (Enforcement, error) {
	var names []string
	for _, v := range values {
		v = strings.ToLower(strings.TrimSpace(v))
		switch {
		case v == "" || strings.ContainsAny(v, " \t\n"):
			return Enforcement{}, fmt.Errorf("agent.tool_use_enforcement: %q is not a part of a model name", v)
		case slices.Contains([]string{"auto", "true", "always", "yes", "on", "false", "never", "no", "off"}, v) && len(values) > 1:
			return Enforcement{}, fmt.Errorf("agent.tool_use_enforcement: %q is not allowed in a list; use auto, on, off, or a list of parts of model names", v)
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

// Covers reports whether the model with that name gets the instruction.
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
