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

// tagLimit is the most bytes of a tag, attributes included; spacing that is
// allowed does not count. What is longer is not taken for one.
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
	word, separated, spacing := "", false, 0
	for {
		if i-spacing >= tagLimit {
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
		if spaced && ignorable(r) {
			spacing += n
		}
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

// brackets are what a tag may begin with.
const brackets = "<\uFF1C\uFE64"

// wide is the first byte of the brackets that are not ASCII.
const wide = 0xEF

// bracket returns the index of the first bracket in s that may begin a tag, and
// its size; -1 if there is none.
func bracket(s string) (at, size int) {
	for base := 0; base < len(s); base += stretch {
		part := s[base:min(len(s), base+stretch)]
		ascii := strings.IndexByte(part, brackets[0])
		if ascii >= 0 {
			part = part[:ascii]
		}
		for i := 0; i < len(part); i++ {
			n := strings.IndexByte(part[i:], wide)
			if n < 0 {
				break
			}
			i += n
			if r, size := utf8.DecodeRuneInString(s[base+i:]); strings.ContainsRune(brackets, r) {
				return base + i, size
			}
		}
		if ascii >= 0 {
			return base + ascii, 1
		}
	}
	return -1, 0
}

// stretch is how many bytes are looked at for one kind of bracket before the
// other: a text full of one of them must not be read to its end for each.
const stretch = 512

// lastBracket returns the index of the last of brackets, -1 if there is none.
func lastBracket(s string) int {
	at := strings.LastIndexByte(s, brackets[0])
	for end := len(s); ; {
		end = strings.LastIndexByte(s[at+1:end], wide) + at + 1
		if end <= at {
			return at
		}
		if r, _ := utf8.DecodeRuneInString(s[end:]); strings.ContainsRune(brackets, r) {
			return end
		}
	}
}

// EscapeTags returns text from users, files, tools or providers with the tags
// of overlays made harmless: their bracket becomes "&lt;". Everything else stays
// as it is. Doing it again changes nothing.
func EscapeTags(text string) string { return neutralise(text, gatewayTag|memoryTag) }

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

// seal returns text, which is neutralised already, so that no tag of ours comes
// to be where other text follows it: a bracket at which one may have begun
// becomes "&lt;" too.
func seal(text string, kinds tagKind) string {
	// Only the last bracket counts: none can stand inside a tag.
	i := lastBracket(text)
	if i < 0 || !begun(text[i:], kinds) {
		return text
	}
	_, size := utf8.DecodeRuneInString(text[i:])
	return text[:i] + "&lt;" + text[i+size:]
}

// begun reports whether s, which begins with a bracket, is the beginning of a
// tag of one of kinds.
func begun(s string, kinds tagKind) bool {
	for _, k := range []struct {
		kind tagKind
		name string
	}{{gatewayTag, "gateway-context"}, {memoryTag, "memory-context"}} {
		for n := range len(k.name) + 1 {
			if k.kind&kinds == 0 {
				break
			}
			// What is missing is some end of the name, or of the tag.
			if t, v := parseTag(s+k.name[n:]+">", true, true); v == yes && t.kind == k.kind && t.size > len(s) {
				return true
			}
		}
	}
	return false
}
