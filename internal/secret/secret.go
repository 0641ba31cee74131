// Package secret masks passwords and tokens in output. A Value hides itself when it is
// printed or encoded; a Masker replaces registered values in text.
package secret

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// A Value is a secret string. When it is printed, logged or encoded it shows only whether
// it is set.
type Value string

const shown = "<secret>"

// Reveal returns the secret.
func (v Value) Reveal() string { return string(v) }

func (v Value) String() string {
	if v == "" {
		return ""
	}
	return shown
}

// GoString hides the secret from %#v.
func (v Value) GoString() string { return `"` + v.String() + `"` }

// MarshalText hides the secret from JSON and YAML.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// A Masker replaces registered secrets in text. The zero Masker masks nothing.
// Its methods may be called from any goroutine.
type Masker struct {
	mu     sync.RWMutex // guards the fields below
	values []string     // longest first, so that a secret that contains another is replaced as a whole
	forms  []string     // the forms in which values may occur in text
	r      *strings.Replacer
}

// Add registers secrets. Secrets shorter than 8 bytes are ignored, because masking them
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
	m.forms = nil
	var pairs []string
	for _, s := range m.values {
		for _, form := range append([]string{s}, quotedForms(s)...) {
			if !slices.Contains(m.forms, form) {
				m.forms = append(m.forms, form)
			}
		}
	}
	for _, s := range m.forms {
		pairs = append(pairs, s, shown)
	}
	m.r = strings.NewReplacer(pairs...)
}

// quotedForms returns the forms of s in JSON, with and without escapes for HTML.
func quotedForms(s string) (forms []string) {
	for _, html := range []bool{true, false} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if err := e.Encode(s); err == nil {
			forms = append(forms, b.String()[1:b.Len()-2]) // without the quotes and the line end
		}
	}
	return forms
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

// Pending returns the number of bytes at the end of s that may be the beginning of a
// registered secret. When text is streamed these bytes must not be shown yet.
func (m *Masker) Pending(s string) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	longest := 0
	for _, v := range m.forms {
		longest = max(longest, len(v)-1)
	}
	open := false
	for i := max(0, len(s)-longest); i < len(s) && !open; i++ {
		open = m.isPrefixLocked(s[i:])
	}
	for i := 0; open && i < len(s); { // advance like Mask
		if m.isPrefixLocked(s[i:]) {
			return len(s) - i
		}
		i += max(1, m.matchLocked(s[i:]))
	}
	return 0
}

// isPrefixLocked reports whether s is the beginning of a secret.
func (m *Masker) isPrefixLocked(s string) bool {
	return slices.ContainsFunc(m.forms, func(v string) bool { return len(s) < len(v) && strings.HasPrefix(v, s) })
}

// matchLocked returns the length of the secret at the beginning of s, 0 if there is none.
func (m *Masker) matchLocked(s string) int {
	for _, v := range m.forms {
		if strings.HasPrefix(s, v) {
			return len(v)
		}
	}
	return 0
}
