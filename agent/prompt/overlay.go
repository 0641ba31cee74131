package prompt

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"

	"hermesd/internal/shorten"
)

// An Overlay is text of the gateway for a single call. The provider puts it
// after everything else; it is never stored. The zero Overlay is empty.
type Overlay struct{ text string }

// NewOverlay returns the overlay of parts: each is trimmed, empty ones are
// omitted, and the others are separated by one blank line. Parts may contain a
// memory-context block, but no tag of the overlay itself: such a tag is
// escaped, so that a part cannot end the overlay.
func NewOverlay(parts ...string) Overlay { return Overlay{}.With(parts...) }

// With returns the overlay with parts appended.
func (o Overlay) With(parts ...string) Overlay {
	all := []string{o.text}
	for _, p := range parts {
		all = append(all, escapeTrailingBracket(clean(escapeKinds(p, gatewayTag)), gatewayTag))
	}
	return Overlay{joinParts(all)}
}

// Empty reports whether the overlay has no text.
func (o Overlay) Empty() bool { return o.text == "" }

// String returns the overlay with its tags, "" if it is empty.
func (o Overlay) String() string {
	if o.text == "" {
		return ""
	}
	return "<gateway-context>\n" + o.text + "\n</gateway-context>"
}

// maxQuotedChars limits the characters of a quoted piece of metadata.
const maxQuotedChars = 240

// Quote returns a name, a topic or other metadata chosen by users as a JSON
// string that is safe in an overlay: control and invisible characters are
// removed, tags are escaped, and at most 240 characters remain.
func Quote(s string) string {
	s = strings.Map(func(r rune) rune {
		if isInvisible(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	// Truncating may complete a tag, and escaping lengthens: repeat until
	// neither changes anything. Each round leaves fewer angle brackets.
	for {
		next := EscapeTags(s[:shorten.Offset(s, maxQuotedChars)])
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

// isInvisible reports whether r controls layout without being visible. Joiners
// are not included: names with emoji and many scripts need them.
func isInvisible(r rune) bool {
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
