package prompt

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A tagKind is a set of tags that are ours.
type tagKind int

const (
	gatewayTag tagKind = 1 << iota
	memoryTag
)

// tagLimit is the most bytes of a tag, attributes and spacing included. What is
// longer is not taken for one.
const tagLimit = 256

// A tag is a tag of ours at the beginning of some text.
type tag struct {
	kind    tagKind
	closing bool
	size    int // bytes, its bracket included
}

type verdict int

const (
	no   verdict = iota
	yes          // a tag stands here
	more         // that depends on what follows
)

// parseTag looks for a tag of ours at the beginning of s, which begins with a
// bracket. It takes any case and width, spacing if spaced is true, and a missing
// end, but not names that only begin the same, such as <memory-context-menu> or
// <MemoryContext>. At the end of the text (end is true) it never answers more.
func parseTag(s string, spaced, end bool) (tag, verdict) {
	undecided := more
	if end {
		undecided = no
	}
	_, i := utf8.DecodeRuneInString(s)
	t := tag{}
	word, separated := "", false
	for {
		if i >= tagLimit {
			return tag{}, no
		}
		if !utf8.FullRuneInString(s[i:]) && !end {
			return tag{}, undecided
		}
		if i >= len(s) {
			return tag{}, undecided
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		r = narrow(r)
		switch {
		case unicode.IsSpace(r) && !spaced:
			return tag{}, no
		case r == '/' && word == "":
			t.closing = true
		case word != "" && (dash(r) || r == '_' || unicode.IsSpace(r)) && (word == "gateway" || word == "memory"):
			separated = true
		case ignorable(r):
		case unicode.IsLetter(r):
			if (word == "gateway" || word == "memory") && !separated {
				return tag{}, no
			}
			word += string(unicode.ToLower(r))
			if !strings.HasPrefix("gatewaycontext", word) && !strings.HasPrefix("memorycontext", word) {
				return tag{}, no
			}
		default:
			return tag{}, no
		}
		i += n
		if word == "gatewaycontext" || word == "memorycontext" {
			break
		}
	}
	t.kind = gatewayTag
	if word == "memorycontext" {
		t.kind = memoryTag
	}
	return tagEnd(s, i, end, t)
}

// tagEnd finds where a tag ends whose name ends before s[i].
func tagEnd(s string, i int, end bool, t tag) (tag, verdict) {
	t.size = i
	if i == len(s) || !utf8.FullRuneInString(s[i:]) {
		if end {
			return t, yes
		}
		return tag{}, more
	}
	r, _ := utf8.DecodeRuneInString(s[i:])
	r = narrow(r)
	if unicode.IsLetter(r) || unicode.IsDigit(r) || dash(r) || r == '_' || r == '.' || r == ':' {
		return tag{}, no
	}
	for j := i; j < len(s) && j < tagLimit; {
		if !utf8.FullRuneInString(s[j:]) && !end {
			return tag{}, more
		}
		r, n := utf8.DecodeRuneInString(s[j:])
		j += n
		switch narrow(r) {
		case '>':
			t.size = j
			return t, yes
		case '<', '\n':
			return t, yes
		}
	}
	if !end && len(s) < tagLimit {
		return tag{}, more
	}
	return t, yes
}

// narrow maps full-width forms to the ASCII that they look like.
func narrow(r rune) rune {
	switch {
	case r >= 0xFF01 && r <= 0xFF5E:
		return r - 0xFEE0
	case r == 0xFE64:
		return '<'
	case r == 0xFE65:
		return '>'
	}
	return r
}

func dash(r rune) bool { return unicode.Is(unicode.Pd, r) || r == '\u2212' }

// ignorable reports whether r may stand inside a tag without being seen.
func ignorable(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Mn)
}

// bracket returns the index of the first bracket in s that may begin a tag, and
// its size; -1 if there is none.
func bracket(s string) (at, size int) {
	at = strings.IndexAny(s, "<\uFF1C\uFE64")
	if at < 0 {
		return -1, 0
	}
	_, size = utf8.DecodeRuneInString(s[at:])
	return at, size
}

// Neutralise returns text from users, files, tools or providers with the tags
// of overlays made harmless: their bracket becomes "&lt;". Everything else stays
// as it is. Doing it again changes nothing.
func Neutralise(text string) string { return neutralise(text, gatewayTag|memoryTag) }

func neutralise(text string, kinds tagKind) string {
	var b strings.Builder
	rest := text
	for {
		at, size := bracket(rest)
		if at < 0 {
			break
		}
		t, v := parseTag(rest[at:], true, true)
		if v == yes && t.kind&kinds != 0 {
			b.WriteString(rest[:at])
			b.WriteString("&lt;")
		} else {
			b.WriteString(rest[:at+size])
		}
		rest = rest[at+size:]
	}
	if b.Len() == 0 {
		return text
	}
	b.WriteString(rest)
	return b.String()
}
