// Package prompt builds what a session's model is told before anybody speaks:
// the Prefix, which is frozen for the life of a session, and the Overlay, which
// belongs to a single call and is never stored. It also keeps the tags of
// overlays ours: Neutralise on the way in, Scrubber on the way out.
package prompt

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
)

//go:embed identity.md gateway.md platform/*.md
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
	// Guidance is what the model is told about the tools that it is offered.
	Guidance []string
	// SystemMessage is the operator's or the API client's own text.
	SystemMessage string
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

// A Layer is one part of a cached prompt.
type Layer struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// A Prefix is the frozen beginning of a session's every request: the cached
// prompt and the tools array. It cannot be changed; it can be stored as JSON
// and comes back with the same bytes. The zero Prefix is empty.
type Prefix struct {
	layers []Layer
	system string
	tools  []llm.Tool
	hash   string
}

// Build makes the prefix of a session. Each layer is trimmed, empty ones
// vanish, and one blank line stands between two of them. Tags of overlays in
// what was handed in are neutralised.
func Build(in Inputs) Prefix {
	identity := in.Soul
	if strings.TrimSpace(identity) == "" {
		name := strings.TrimSpace(in.Name)
		if name == "" {
			name = DefaultName
		}
		identity = strings.ReplaceAll(text("identity.md"), "{{name}}", name)
	}
	candidates := []Layer{
		{"identity", Neutralise(identity)},
		{"guidance", join(append([]string{text("gateway.md")}, neutralised(in.Guidance)...))},
		{"system message", Neutralise(in.SystemMessage)},
		{"session", sessionLines(in)},
		{"platform", text("platform/" + in.Platform + ".md")},
	}
	var layers []Layer
	for _, l := range candidates {
		if l.Text = clean(l.Text); l.Text != "" {
			layers = append(layers, l)
		}
	}
	tools := make([]llm.Tool, len(in.Tools))
	for i, t := range in.Tools {
		tools[i] = llm.Tool{
			Name:        strings.ToValidUTF8(t.Name, "\uFFFD"),
			Description: clean(Neutralise(t.Description)),
			Schema:      slices.Clone(t.Schema),
		}
	}
	return freeze(layers, tools)
}

func freeze(layers []Layer, tools []llm.Tool) Prefix {
	parts := make([]string, len(layers))
	for i, l := range layers {
		parts[i] = l.Text
	}
	p := Prefix{layers: layers, system: strings.Join(parts, "\n\n"), tools: tools}
	h := sha256.New()
	put := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	put(p.system)
	for _, t := range tools {
		put(t.Name)
		put(t.Description)
		put(string(t.Schema))
	}
	p.hash = hex.EncodeToString(h.Sum(nil))
	return p
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

func neutralised(ss []string) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = Neutralise(s)
	}
	return out
}

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
		if v := strings.Join(strings.Fields(f.value), " "); v != "" {
			lines = append(lines, f.name+": "+Neutralise(v))
		}
	}
	return strings.Join(lines, "\n")
}

// System returns the cached prompt.
func (p Prefix) System() string { return p.system }

// Tools returns a copy of the tools array.
func (p Prefix) Tools() []llm.Tool {
	out := slices.Clone(p.tools)
	for i := range out {
		out[i].Schema = slices.Clone(out[i].Schema)
	}
	return out
}

// Hash returns a digest of the cached prompt and the tools: two prefixes have
// the same one if and only if they send the same bytes. The zero Prefix has "".
func (p Prefix) Hash() string { return p.hash }

// Layers returns a copy of the layers, in order. Joined by blank lines they are
// the cached prompt.
func (p Prefix) Layers() []Layer { return slices.Clone(p.layers) }

// version is that of the stored form. Whoever changes the form, or how layers
// become bytes, counts it up and keeps reading the old ones.
const version = 1

// stored keeps schemas as strings: JSON inside JSON would be compacted and
// escaped by whoever encodes it again, and bytes would change.
type stored struct {
	Version int          `json:"v"`
	Hash    string       `json:"hash"`
	Layers  []Layer      `json:"layers"`
	Tools   []storedTool `json:"tools"`
}

type storedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Schema      string `json:"schema"`
}

// MarshalJSON returns the form in which the prefix is kept with its session.
func (p Prefix) MarshalJSON() ([]byte, error) {
	s := stored{Version: version, Hash: p.hash, Layers: p.layers, Tools: make([]storedTool, len(p.tools))}
	for i, t := range p.tools {
		s.Tools[i] = storedTool{t.Name, t.Description, string(t.Schema)}
	}
	return json.Marshal(s)
}

// ErrStored says that stored bytes are not a prefix that can be replayed: they
// are of an unknown version, or damaged.
var ErrStored = errors.New("prompt: the stored prompt cannot be replayed")

// UnmarshalJSON reads what MarshalJSON wrote. A form of another version, or one
// whose bytes do not give the hash that it names, is refused with ErrStored.
func (p *Prefix) UnmarshalJSON(b []byte) error {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrStored, err)
	}
	if s.Version != version {
		return fmt.Errorf("%w: version %d is unknown", ErrStored, s.Version)
	}
	if s.Hash == "" && len(s.Layers) == 0 && len(s.Tools) == 0 {
		*p = Prefix{}
		return nil
	}
	tools := make([]llm.Tool, len(s.Tools))
	for i, t := range s.Tools {
		tools[i] = llm.Tool{Name: t.Name, Description: t.Description, Schema: json.RawMessage(t.Schema)}
	}
	q := freeze(s.Layers, tools)
	if q.hash != s.Hash {
		return fmt.Errorf("%w: its bytes do not give its hash", ErrStored)
	}
	*p = q
	return nil
}
