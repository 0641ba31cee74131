package prompt

import (
	"strings"
	"unicode/utf8"
)

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
