// Package prompt builds the Prefix, which is the frozen beginning of every
// request of a session, and the Overlay, which is text of a single call that is
// never stored. It also protects the tags of overlays: EscapeTags escapes them
// in input, and a Scrubber removes them from the model's output.
//
// A Prefix and an Overlay are immutable. Inputs come from the caller: this
// package reads no files except prefill files.
package prompt

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/agent/llm"
)

//go:embed identity.md gateway.md gateway_short.md guidance/*.md
var embeddedTexts embed.FS

// DefaultName is the name of the agent in the built-in identity if Inputs.Name
// is empty.
const DefaultName = "Hermes"

// Inputs holds everything that a Prefix is built from. Equal inputs give equal
// bytes.
type Inputs struct {
	// Name is the name of the agent in the built-in identity; "" is
	// DefaultName.
	Name string
	// Soul replaces the built-in identity; "" for none.
	Soul string
	// Guidance holds instructions about tools, in addition to the texts of this
	// package, which depend on Tools.
	Guidance []string
	// Short selects short texts about the gateway and the memory, for a small
	// context window.
	Short bool
	// Enforce selects the models that are instructed to act through their
	// tools.
	Enforce Enforcement
	// Honcho is the static text of that memory provider: its description, and what it
	// knew of the person when it was last asked. "" if another one is configured, or none.
	Honcho string
	// SystemMessage is the operator's or the API client's own text.
	SystemMessage string
	// Memory and UserProfile are the frozen snapshots of the memory stores, ""
	// if the participants of the session may not see them. A Shared session, in
	// which several people write, never gets UserProfile.
	Memory, UserProfile string
	Shared              bool
	// ExternalMemory is the static text of another memory provider. Honcho is "" then.
	ExternalMemory string
	// Skills is the index of skills. It is omitted if no skill tool is offered.
	Skills string
	// ContextFiles is the project's own text, with its heading.
	ContextFiles string
	// Started is the start of the conversation, in the time zone to show. Only
	// the date is part of the prompt.
	Started time.Time
	// Session, Model and Provider are part of the prompt unless empty.
	Session, Model, Provider string
	// Hint says what the platform can display; "" for none.
	Hint string
	// Tools is the tools array, in the order in which it is frozen.
	Tools []llm.Tool
}

// Sources reports which files may become part of a session's prompt. A
// sub-agent, or a job without a working directory, skips context files
// including SOUL.md and has the built-in identity. With keepSoul a job uses
// SOUL.md nevertheless; it is false for sub-agents.
func Sources(skipContextFiles, keepSoul bool) (soul, contextFiles bool) {
	return !skipContextFiles || keepSoul, !skipContextFiles
}

// The names of the layers, in prompt order.
const (
	LayerIdentity       = "identity"
	LayerGuidance       = "guidance"
	LayerHoncho         = "honcho"
	LayerSystemMessage  = "system message"
	LayerMemory         = "memory"
	LayerUserProfile    = "user profile"
	LayerExternalMemory = "external memory"
	LayerSkills         = "skills"
	LayerContextFiles   = "context files"
	LayerSession        = "session"
	LayerPlatform       = "platform"
	LayerNote           = "note" // added once, by the first compaction
)

// A Layer is one part of a cached prompt.
type Layer struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Build returns the prefix of a session. Each layer is trimmed, empty layers
// are omitted, and layers are separated by one blank line. Overlay tags in the
// inputs are escaped.
func Build(in Inputs) Prefix {
	if in.Shared {
		in.UserProfile = ""
	}
	if !offersAny(in.Tools, "skills_list", "skill_view", "skill_manage") {
		in.Skills = ""
	}
	candidates := []Layer{
		{LayerIdentity, sanitizeUntrusted(renderIdentity(in))},
		{LayerGuidance, renderGuidance(in)},
		{LayerHoncho, sanitizeUntrusted(in.Honcho)},
		{LayerSystemMessage, sanitizeUntrusted(in.SystemMessage)},
		{LayerMemory, sanitizeUntrusted(in.Memory)},
		{LayerUserProfile, sanitizeUntrusted(in.UserProfile)},
		{LayerExternalMemory, sanitizeUntrusted(in.ExternalMemory)},
		{LayerSkills, sanitizeUntrusted(in.Skills)},
		{LayerContextFiles, sanitizeUntrusted(in.ContextFiles)},
		{LayerSession, renderSession(in)},
		{LayerPlatform, clean(in.Hint)},
	}
	layers := slices.DeleteFunc(candidates, func(l Layer) bool { return l.Text == "" })
	tools := make([]llm.Tool, len(in.Tools))
	for i, t := range in.Tools {
		tools[i] = llm.Tool{
			Name:        strings.ToValidUTF8(t.Name, "\uFFFD"),
			Description: clean(EscapeTags(t.Description)),
			Schema:      slices.Clone(t.Schema),
		}
	}
	return freeze(layers, tools)
}

func renderIdentity(in Inputs) string {
	if strings.TrimSpace(in.Soul) != "" {
		return in.Soul
	}
	name := strings.Join(strings.Fields(in.Name), " ")
	name = cmp.Or(name, DefaultName)
	return strings.ReplaceAll(loadText("identity.md"), "{{name}}", name)
}

// loadText returns an embedded text, "" if there is none of that name.
func loadText(name string) string {
	b, err := embeddedTexts.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b)
}

func clean(s string) string { return strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD")) }

// sanitizeUntrusted returns s trimmed and with overlay tags escaped, so that it
// can be joined with any other text.
func sanitizeUntrusted(s string) string {
	return escapeTrailingBracket(clean(EscapeTags(s)), gatewayTag|memoryTag)
}

// joinParts trims parts, omits empty ones and separates the others by one blank
// line.
func joinParts(parts []string) string {
	var kept []string
	for _, s := range parts {
		if s = clean(s); s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "\n\n")
}

func renderSession(in Inputs) string {
	var lines []string
	if !in.Started.IsZero() {
		zone := in.Started.Location().String()
		if zone == "Local" || zone == "" {
			zone = "UTC" + in.Started.Format("-07:00")
		}
		lines = append(lines, "Conversation started: "+in.Started.Format("Monday, January 2, 2006")+" ("+zone+")")
	}
	for _, f := range []struct{ name, value string }{
		{"Session", in.Session}, {"Model", in.Model}, {"Provider", in.Provider},
	} {
		if v := sanitizeUntrusted(strings.Join(strings.Fields(f.value), " ")); v != "" {
			lines = append(lines, f.name+": "+v)
		}
	}
	return strings.Join(lines, "\n")
}

// Identity returns the built-in identity of an agent called name; "" is
// DefaultName.
func Identity(name string) string { return renderIdentity(Inputs{Name: name}) }

// Personalities returns the built-in texts for /personality, by name. Each sets
// a style and does not change what the agent may do.
func Personalities() map[string]string {
	return map[string]string{
		"helpful":     "Speak like a patient, friendly assistant who makes sure that the question is really answered.",
		"concise":     "Be brief: the answer first, in as few words as it needs, and nothing that was not asked for.",
		"technical":   "Speak like an experienced engineer: exact terms, figures, trade-offs, and commands that can be copied.",
		"creative":    "Look for the unexpected idea as well as the usual one, and offer both.",
		"teacher":     "Explain step by step, check what is already known, use one example for each idea, and end with a question that helps to go on.",
		"philosopher": "Weigh the question before answering it: name the assumptions behind it, and what could be said against the answer.",
		"noir":        "Speak like a tired private detective in a rainy city: short sentences, dry wit, the facts all the same.",
		"pirate":      "Speak like an old pirate captain. The facts stay exact, whatever the sea is like.",
		"shakespeare": "Speak in the manner of the Elizabethan stage, with measured lines now and then. Code and figures stay plain.",
		"surfer":      "Speak like a relaxed surfer who happens to know everything about the subject.",
		"hype":        "Speak like a coach before the big match: full of energy, and always with the next step.",
		"kawaii":      "Speak in a sweet, cheerful way with a kaomoji now and then. The content stays complete.",
		"uwu":         "Speak in the playful uwu manner of the net. Names, code and figures stay as they are.",
		"catgirl":     "Speak like a clever, teasing cat: a purr here and there, and always the right answer.",
	}
}

// Show renders the layers of a cached prompt for a person: a table of their
// sizes, followed by their texts if texts is true. Tokens are estimated at four
// characters each. The texts are not sanitized for a terminal.
func Show(layers []Layer, texts bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %10s %10s %9s\n", "layer", "characters", "bytes", "~tokens")
	row := func(name string, chars, bytes int) {
		fmt.Fprintf(&b, "%-16s %10d %10d %9d\n", name, chars, bytes, (chars+3)/4)
	}
	chars, bytes := 0, 0
	for i, l := range layers {
		n := utf8.RuneCountInString(l.Text)
		row(l.Name, n, len(l.Text))
		chars, bytes = chars+n, bytes+len(l.Text)
		if i > 0 {
			chars, bytes = chars+2, bytes+2 // the blank line
		}
	}
	row("together", chars, bytes)
	if texts {
		for _, l := range layers {
			fmt.Fprintf(&b, "\n=== %s ===\n%s\n", l.Name, l.Text)
		}
	}
	return b.String()
}

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
