package prompt

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// An Overlay is text of the gateway's for a single call. The provider puts it
// behind everything else; it is never stored. The zero Overlay is empty.
type Overlay struct{ text string }

// NewOverlay returns the overlay of parts: each is trimmed, empty ones vanish,
// and one blank line stands between two. Parts may hold a memory-context block,
// but no tag of the overlay itself: that is neutralised, so that a part cannot
// end the overlay.
func NewOverlay(parts ...string) Overlay { return Overlay{}.With(parts...) }

// With returns the overlay with parts after what it has.
func (o Overlay) With(parts ...string) Overlay {
	all := []string{o.text}
	for _, p := range parts {
		all = append(all, seal(clean(neutralise(p, gatewayTag)), gatewayTag))
	}
	return Overlay{join(all)}
}

// Empty reports whether there is nothing in the overlay.
func (o Overlay) Empty() bool { return o.text == "" }

// String returns the overlay as the model reads it, "" if it is empty.
func (o Overlay) String() string {
	if o.text == "" {
		return ""
	}
	return "<gateway-context>\n" + o.text + "\n</gateway-context>"
}

// maxQuoted is the most characters of a quoted piece of metadata.
const maxQuoted = 240

// Quote returns a name, a topic or other metadata that people have chosen, as a
// JSON string that is safe to stand in an overlay: characters that control
// layout or cannot be seen are removed, tags neutralised, and at most 240
// characters remain.
func Quote(s string) string {
	s = strings.Map(func(r rune) rune {
		if unseen(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	// Cutting may complete a tag, and neutralising lengthens: repeat until
	// neither has anything to do. Each round leaves fewer angle brackets.
	for {
		next := EscapeTags(cut(s, maxQuoted))
		if next == s {
			break
		}
		s = next
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// unseen reports whether r steers layout without being seen itself. Joiners
// stay: names with emoji and many scripts need them.
func unseen(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\uFEFF', r == '\u00AD':
		return true
	case r >= '\u202A' && r <= '\u202E', r >= '\u2060' && r <= '\u206F', r == '\u200B', r == '\u200E', r == '\u200F':
		return true
	case r >= 0xE0000 && r <= 0xE007F:
		return true
	}
	return false
}

// cut returns the first n characters of s.
func cut(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
