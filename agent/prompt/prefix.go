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

// A Prefix is the frozen beginning of a session's every request: the cached
// prompt and the tools array. It cannot be changed; it can be stored as JSON
// and comes back with the same bytes. The zero Prefix is empty.
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
// the same one if and only if they send the same bytes. The zero Prefix has "".
func (p Prefix) Hash() string { return p.hash }

// Layers returns a copy of the layers, in order. Joined by blank lines they are
// the cached prompt.
func (p Prefix) Layers() []Layer { return slices.Clone(p.layers) }

// order is where each layer stands.
func order(name string) int {
	return slices.Index([]string{
		LayerIdentity, LayerGuidance, LayerHoncho, LayerSystemMessage, LayerMemory, LayerUserProfile, LayerExternalMemory,
		LayerSkills, LayerContextFiles, LayerSession, LayerPlatform, LayerNote,
	}, name)
}

// With returns the prefix with the named layer set to text, at its place; the
// layer goes if text is empty. All other layers and the tools keep their bytes.
// Doing it again changes nothing: the Hash tells whether anything was changed.
// It is for the note of a session's first compression and for memory that is
// read again with it; both are declared breaks. A name that is not one of this
// package's changes nothing.
func (p Prefix) With(name, text string) Prefix {
	at := order(name)
	if at < 0 {
		return p
	}
	layers := slices.DeleteFunc(slices.Clone(p.layers), func(l Layer) bool { return l.Name == name })
	if text = foreign(text); text != "" {
		i := slices.IndexFunc(layers, func(l Layer) bool { return order(l.Name) > at })
		if i < 0 {
			i = len(layers)
		}
		layers = slices.Insert(layers, i, Layer{name, text})
	}
	return freeze(layers, p.tools)
}

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
