package prompt

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tagKind int

const (
	gatewayTag tagKind = 1 << iota
	memoryTag
)

// maxTagBytes is the maximum length of a tag, including attributes but without
// allowed spacing. A longer text is not a tag.
const maxTagBytes = 256

// A tag is an overlay tag at the beginning of a text.
type tag struct {
	kind    tagKind
	closing bool
	size    int // bytes, including the bracket
}

type tagMatch int

const (
	noTag    tagMatch = iota
	isTag             // there is a tag
	needMore          // it depends on the text that follows
)

// parseTag parses an overlay tag at the beginning of s, which begins with a
// bracket. It accepts any case and width, spacing if spaced is true, and a
// missing end, but not names with the same beginning, such as
// <memory-context-menu> or <MemoryContext>. With end, which means that no more
// text follows, it never returns needMore.
func parseTag(s string, spaced, end bool) (tag, tagMatch) {
	undecided := needMore
	if end {
		undecided = noTag
	}
	_, i := utf8.DecodeRuneInString(s)
	t := tag{}
	word, separated, spacing := "", false, 0
	for {
		if i-spacing >= maxTagBytes {
			return tag{}, noTag
		}
		if !utf8.FullRuneInString(s[i:]) && !end {
			return tag{}, undecided
		}
		if i >= len(s) {
			return tag{}, undecided
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		r = foldWidth(r)
		if spaced && isIgnorable(r) {
			spacing += n
		}
		switch {
		case unicode.IsSpace(r) && !spaced:
			return tag{}, noTag
		case r == '/' && word == "":
			t.closing = true
		case word != "" && (isDash(r) || r == '_' || unicode.IsSpace(r)) && (word == "gateway" || word == "memory"):
			separated = true
		case isIgnorable(r):
		case unicode.IsLetter(r):
			if (word == "gateway" || word == "memory") && !separated {
				return tag{}, noTag
			}
			word += string(unicode.ToLower(r))
			if !strings.HasPrefix("gatewaycontext", word) && !strings.HasPrefix("memorycontext", word) {
				return tag{}, noTag
			}
		default:
			return tag{}, noTag
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
	return findTagEnd(s, i, end, t)
}

// findTagEnd finds the end of a tag whose name ends before s[i].
func findTagEnd(s string, i int, end bool, t tag) (tag, tagMatch) {
	t.size = i
	if i == len(s) || !utf8.FullRuneInString(s[i:]) {
		if end {
			return t, isTag
		}
		return tag{}, needMore
	}
	r, _ := utf8.DecodeRuneInString(s[i:])
	r = foldWidth(r)
	if unicode.IsLetter(r) || unicode.IsDigit(r) || isDash(r) || r == '_' || r == '.' || r == ':' {
		return tag{}, noTag
	}
	for j := i; j < len(s) && j < maxTagBytes; {
		if !utf8.FullRuneInString(s[j:]) && !end {
			return tag{}, needMore
		}
		r, n := utf8.DecodeRuneInString(s[j:])
		j += n
		switch foldWidth(r) {
		case '>':
			t.size = j
			return t, isTag
		case '<', '\n':
			return t, isTag
		}
	}
	if !end && len(s) < maxTagBytes {
		return tag{}, needMore
	}
	return t, isTag
}

// foldWidth maps full-width and small forms to the ASCII characters they
// resemble.
func foldWidth(r rune) rune {
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

func isDash(r rune) bool { return unicode.Is(unicode.Pd, r) || r == '\u2212' }

// isIgnorable reports whether r may be in a tag without being visible.
func isIgnorable(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Mn)
}

// brackets holds the characters that may begin a tag.
const brackets = "<\uFF1C\uFE64"

// wideLead is the first byte of the brackets that are not ASCII.
const wideLead = 0xEF

// findBracket returns the index of the first bracket in s that may begin a tag,
// and its size; -1 if there is none.
func findBracket(s string) (at, size int) {
	for base := 0; base < len(s); base += scanChunk {
		part := s[base:min(len(s), base+scanChunk)]
		ascii := strings.IndexByte(part, brackets[0])
		if ascii >= 0 {
			part = part[:ascii]
		}
		for i := 0; i < len(part); i++ {
			n := strings.IndexByte(part[i:], wideLead)
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

// scanChunk is the number of bytes that are searched for one kind of bracket
// before the other: a text with many brackets of one kind must not be read to
// its end for each of them.
const scanChunk = 512

// findLastBracket returns the index of the last bracket in s, -1 if there is
// none.
func findLastBracket(s string) int {
	at := strings.LastIndexByte(s, brackets[0])
	for end := len(s); ; {
		end = strings.LastIndexByte(s[at+1:end], wideLead) + at + 1
		if end <= at {
			return at
		}
		if r, _ := utf8.DecodeRuneInString(s[end:]); strings.ContainsRune(brackets, r) {
			return end
		}
	}
}

// EscapeTags returns text from users, files, tools or providers with overlay
// tags escaped: their bracket becomes "&lt;". Everything else is unchanged. It
// is idempotent.
func EscapeTags(text string) string { return escapeKinds(text, gatewayTag|memoryTag) }

func escapeKinds(text string, kinds tagKind) string {
	var b strings.Builder
	rest := text
	for {
		at, size := findBracket(rest)
		if at < 0 {
			break
		}
		t, v := parseTag(rest[at:], true, true)
		if v == isTag && t.kind&kinds != 0 {
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

// escapeTrailingBracket returns text, in which tags are escaped already, so
// that appending other text cannot complete an overlay tag: a bracket that may
// begin one becomes "&lt;" as well.
func escapeTrailingBracket(text string, kinds tagKind) string {
	// Only the last bracket matters: a tag cannot contain another one.
	i := findLastBracket(text)
	if i < 0 || !mayBeginTag(text[i:], kinds) {
		return text
	}
	_, size := utf8.DecodeRuneInString(text[i:])
	return text[:i] + "&lt;" + text[i+size:]
}

// mayBeginTag reports whether s, which begins with a bracket, is the beginning
// of a tag of one of kinds.
func mayBeginTag(s string, kinds tagKind) bool {
	for _, k := range []struct {
		kind tagKind
		name string
	}{{gatewayTag, "gateway-context"}, {memoryTag, "memory-context"}} {
		for n := range len(k.name) + 1 {
			if k.kind&kinds == 0 {
				break
			}
			// The missing text is a suffix of the name, or the end of the tag.
			if t, v := parseTag(s+k.name[n:]+">", true, true); v == isTag && t.kind == k.kind && t.size > len(s) {
				return true
			}
		}
	}
	return false
}

// A Scrubber removes overlay blocks from a model's output, so that an echo of
// the gateway's text is not shown: a block with its content (to the end of the
// text if it is not closed), and closing tags without a block. A tag directly
// after a backtick is a mention and is kept.
//
// The output may be written in pieces of any size; the result depends only on
// the concatenation. The zero Scrubber is ready to use. It is not safe for
// concurrent use.
type Scrubber struct {
	pending       string  // input not decided yet; begins with a bracket if not empty and no block is open
	openKind      tagKind // kind of the block that is being removed; 0 for none
	afterBacktick bool    // the last emitted byte is a backtick
}

// Write adds the next piece and returns the output that can be shown now.
func (s *Scrubber) Write(piece string) string { return s.process(s.pending+piece, false) }

// Flush returns the pending output and resets the scrubber.
func (s *Scrubber) Flush() string {
	out := s.process(s.pending, true)
	*s = Scrubber{}
	return out
}

// Scrub returns the complete output of a model without overlay blocks.
func Scrub(text string) string {
	var s Scrubber
	return s.Write(text) + s.Flush()
}

func (s *Scrubber) process(rest string, end bool) string {
	var out strings.Builder
	s.pending = ""
	for rest != "" {
		at, size := findBracket(rest)
		if at < 0 {
			keep := 0
			if !end {
				keep = partialRune(rest)
			}
			s.emit(&out, rest[:len(rest)-keep])
			s.pending = rest[len(rest)-keep:]
			break
		}
		s.emit(&out, rest[:at])
		rest = rest[at:]
		t, v := parseTag(rest, false, end)
		if v == needMore {
			s.pending = rest
			break
		}
		if v == isTag && (s.openKind != 0 || !s.afterBacktick) {
			s.removeTag(t)
			rest = rest[t.size:]
			continue
		}
		s.emit(&out, rest[:size])
		rest = rest[size:]
	}
	return out.String()
}

// emit writes text to out, unless a block is open.
func (s *Scrubber) emit(out *strings.Builder, text string) {
	if s.openKind != 0 || text == "" {
		return
	}
	out.WriteString(text)
	s.afterBacktick = strings.HasSuffix(text, "`")
}

// removeTag drops a tag and opens or closes a block by it.
func (s *Scrubber) removeTag(t tag) {
	switch {
	case s.openKind == 0 && !t.closing:
		s.openKind = t.kind
	case s.openKind == t.kind && t.closing:
		s.openKind = 0
		s.afterBacktick = false
	}
}

// partialRune returns the number of bytes of an incomplete character at the end
// of s.
func partialRune(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		b := s[len(s)-n]
		if utf8.RuneStart(b) {
			if !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
