// Package secret keeps passwords and tokens out of everything that is printed.
package secret

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// A Value is a secret string. However it is printed, logged or encoded it
// shows only that it is set.
type Value string

const shown = "<secret>"

// Reveal returns the secret itself, for the one place that needs it.
func (v Value) Reveal() string { return string(v) }

func (v Value) String() string {
	if v == "" {
		return ""
	}
	return shown
}

// GoString keeps the secret out of %#v.
func (v Value) GoString() string { return `"` + v.String() + `"` }

// MarshalText keeps the secret out of JSON and YAML.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// A Masker replaces registered secrets in text. The zero Masker masks nothing.
// Its methods may be called from any goroutine.
type Masker struct {
	mu     sync.RWMutex // guards what follows
	values []string     // longest first, so that a secret inside another does not spoil it
	r      *strings.Replacer
}

// Add registers secrets. Those shorter than 8 bytes are left out: masking them
// would hide ordinary words.
func (m *Masker) Add(vs ...Value) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range vs {
		if s := string(v); len(s) >= 8 && !slices.Contains(m.values, s) {
			m.values = append(m.values, s)
		}
	}
	slices.SortStableFunc(m.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, s := range m.values {
		pairs = append(pairs, s, shown)
		if q, err := json.Marshal(s); err == nil && string(q[1:len(q)-1]) != s {
			pairs = append(pairs, string(q[1:len(q)-1]), shown)
		}
	}
	m.r = strings.NewReplacer(pairs...)
}

// Mask returns s with every registered secret replaced.
func (m *Masker) Mask(s string) string {
	m.mu.RLock()
	r := m.r
	m.mu.RUnlock()
	if r == nil {
		return s
	}
	return r.Replace(s)
}
