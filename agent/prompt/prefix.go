package prompt

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// A Prefix is the frozen beginning of every request of a session: the cached
// prompt and the tools array. It is immutable, and its JSON form restores the
// same bytes. The zero Prefix is empty.
type Prefix struct {
	layers []Layer
	system string
	tools  []llm.Tool
	hash   string
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
// the same hash if and only if they send the same bytes. The zero Prefix has
// "".
func (p Prefix) Hash() string { return p.hash }

// Layers returns a copy of the layers, in order. Joined by blank lines they are
// the cached prompt.
func (p Prefix) Layers() []Layer { return slices.Clone(p.layers) }

// layerIndex returns the position of a layer, -1 for an unknown name.
func layerIndex(name string) int {
	return slices.Index([]string{
		LayerIdentity, LayerGuidance, LayerHoncho, LayerSystemMessage, LayerMemory, LayerUserProfile, LayerExternalMemory,
		LayerSkills, LayerContextFiles, LayerSession, LayerPlatform, LayerNote,
	}, name)
}

// With returns the prefix with the named layer set to text, at its position; an
// empty text removes the layer. All other layers and the tools keep their
// bytes. The operation is idempotent: compare Hash to detect a change. It
// serves the note of a session's first compaction and the memories that are
// reloaded with it; both are declared prefix breaks. An unknown name changes
// nothing.
func (p Prefix) With(name, text string) Prefix {
	at := layerIndex(name)
	if at < 0 {
		return p
	}
	layers := slices.DeleteFunc(slices.Clone(p.layers), func(l Layer) bool { return l.Name == name })
	if text = sanitizeUntrusted(text); text != "" {
		i := slices.IndexFunc(layers, func(l Layer) bool { return layerIndex(l.Name) > at })
		if i < 0 {
			i = len(layers)
		}
		layers = slices.Insert(layers, i, Layer{name, text})
	}
	return freeze(layers, p.tools)
}

// storedVersion is the version of the stored form. A change of the form, or of
// how layers become bytes, must increase it and keep reading the old forms.
const storedVersion = 1

// storedPrefix keeps schemas as strings: nested JSON would be compacted and
// escaped by any encoder that writes it again, which would change its bytes.
type storedPrefix struct {
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

// MarshalJSON returns the form in which the prefix is stored with its session.
func (p Prefix) MarshalJSON() ([]byte, error) {
	s := storedPrefix{Version: storedVersion, Hash: p.hash, Layers: p.layers, Tools: make([]storedTool, len(p.tools))}
	for i, t := range p.tools {
		s.Tools[i] = storedTool{t.Name, t.Description, string(t.Schema)}
	}
	return json.Marshal(s)
}

// ErrStored means that stored bytes are not a usable prefix: they have an
// unknown version or are corrupt.
var ErrStored = errors.New("prompt: stored prompt cannot be replayed")

// UnmarshalJSON reads the form that MarshalJSON writes. A form with another
// version, or with a wrong hash, gives ErrStored.
func (p *Prefix) UnmarshalJSON(b []byte) error {
	var s storedPrefix
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrStored, err)
	}
	if s.Version != storedVersion {
		return fmt.Errorf("%w: unknown version %d", ErrStored, s.Version)
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
		return fmt.Errorf("%w: hash mismatch", ErrStored)
	}
	*p = q
	return nil
}
