// Package prompt builds what a session's model is told before anybody speaks:
// the Prefix, which is frozen for the life of a session, and what belongs to a
// single turn and is never stored: the Moment, and the Overlay made of it. It
// also keeps the tags of overlays ours: Neutralise on the way in, Scrubber on
// the way out.
package prompt

import (
	"embed"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
)

//go:embed identity.md gateway.md guidance/*.md platform/*.md
var texts embed.FS

// DefaultName is who the built-in identity says the agent is when Inputs names
// nobody.
const DefaultName = "Hermes"

// Inputs is all that a Prefix is made of. Equal inputs give equal bytes.
type Inputs struct {
	// Name of the agent in the built-in identity; "" is DefaultName.
	Name string
	// Soul is the identity that takes the place of the built-in one; "" for none.
	Soul string
	// Guidance is what the model is told about tools beside the texts of this
	// package, which follow from Tools.
	Guidance []string
	// Enforce says which models are told to act through their tools.
	Enforce Enforcement
	// Honcho is the static text of that memory provider.
	Honcho string
	// SystemMessage is the operator's or the API client's own text.
	SystemMessage string
	// Memory and UserProfile are the frozen snapshots of the memory stores, ""
	// where the session's people may not see them. A Shared session, in which
	// several people speak, gets no UserProfile in any case.
	Memory, UserProfile string
	Shared              bool
	// ExternalMemory is the static text of another memory provider.
	ExternalMemory string
	// Skills is the index of skills. It is left out if no tool for them is offered.
	Skills string
	// ContextFiles is the project's own text, with its heading.
	ContextFiles string
	// Started is when the conversation began, in the zone that is shown. Only
	// the date enters the prompt.
	Started time.Time
	// Session, Model and Provider are named in the prompt where they are set.
	Session, Model, Provider string
	// Platform decides the hint about what the surface can show; an unknown one
	// has none.
	Platform string
	// Tools is the array of tools, in the order in which it is to be frozen.
	Tools []llm.Tool
}

// Sources reports which files may enter a session's prompt. A sub-agent, or a
// job without a folder to work in, skips context files, and with them SOUL.md:
// it has the built-in identity. keepSoul lets a job have SOUL.md nevertheless;
// for sub-agents it is false.
func Sources(skipContextFiles, keepSoul bool) (soul, contextFiles bool) {
	return !skipContextFiles || keepSoul, !skipContextFiles
}

// The names of layers, in the order in which they stand.
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
	LayerNote           = "note" // what a compression adds, once
)

// A Layer is one part of a cached prompt.
type Layer struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Build makes the prefix of a session. Each layer is trimmed, empty ones
// vanish, and one blank line stands between two of them. Tags of overlays in
// what was handed in are neutralised.
func Build(in Inputs) Prefix {
	if in.Shared {
		in.UserProfile = ""
	}
	if !offers(in.Tools, "skills_list", "skill_view", "skill_manage") {
		in.Skills = ""
	}
	candidates := []Layer{
		{LayerIdentity, foreign(identity(in))},
		{LayerGuidance, guidance(in)},
		{LayerHoncho, foreign(in.Honcho)},
		{LayerSystemMessage, foreign(in.SystemMessage)},
		{LayerMemory, foreign(in.Memory)},
		{LayerUserProfile, foreign(in.UserProfile)},
		{LayerExternalMemory, foreign(in.ExternalMemory)},
		{LayerSkills, foreign(in.Skills)},
		{LayerContextFiles, foreign(in.ContextFiles)},
		{LayerSession, sessionLines(in)},
		{LayerPlatform, clean(text("platform/" + in.Platform + ".md"))},
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

func identity(in Inputs) string {
	if strings.TrimSpace(in.Soul) != "" {
		return in.Soul
	}
	name := strings.Join(strings.Fields(in.Name), " ")
	if name == "" {
		name = DefaultName
	}
	return strings.ReplaceAll(text("identity.md"), "{{name}}", name)
}

// text returns an embedded text, "" if there is none of that name.
func text(name string) string {
	b, err := texts.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b)
}

func clean(s string) string { return strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD")) }

// foreign returns text that was handed in as it may stand in a prompt, beside
// any other text.
func foreign(s string) string { return seal(clean(EscapeTags(s)), gatewayTag|memoryTag) }

// join trims parts, leaves empty ones out and puts a blank line between two.
func join(parts []string) string {
	var kept []string
	for _, s := range parts {
		if s = clean(s); s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "\n\n")
}

func sessionLines(in Inputs) string {
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
		if v := foreign(strings.Join(strings.Fields(f.value), " ")); v != "" {
			lines = append(lines, f.name+": "+v)
		}
	}
	return strings.Join(lines, "\n")
}
