package prompt

import (
	"strings"
	"unicode/utf8"
)

// A Scrubber removes what belongs to overlays from a model's output, so that an
// echo of the gateway's text is not shown: a block with all that is in it (to
// the end of the text, if it is never closed), and closing tags that close
// nothing. A tag right after a backtick is a mention, and passes.
//
// Output may be written in any pieces: what comes out depends on the whole
// only. The zero Scrubber is ready. It is not safe for use by several
// goroutines.
type Scrubber struct {
	held    string  // not decided yet; begins with a bracket if it is not empty and no block is open
	open    tagKind // of the block that is being left out; 0: none
	mention bool    // the last byte that passed is a backtick
}

// Write takes the next piece and returns what of the output can be shown by
// now.
func (s *Scrubber) Write(piece string) string { return s.run(s.held+piece, false) }

// Flush returns what was still held back. The scrubber then begins anew.
func (s *Scrubber) Flush() string {
	out := s.run(s.held, true)
	*s = Scrubber{}
	return out
}

// Scrub returns the whole output of a model as it may be shown.
func Scrub(text string) string {
	var s Scrubber
	return s.Write(text) + s.Flush()
}

func (s *Scrubber) run(rest string, end bool) string {
	var out strings.Builder
	s.held = ""
	for rest != "" {
		at, size := bracket(rest)
		if at < 0 {
			keep := 0
			if !end {
				keep = partialRune(rest)
			}
			s.pass(&out, rest[:len(rest)-keep])
			s.held = rest[len(rest)-keep:]
			break
		}
		s.pass(&out, rest[:at])
		rest = rest[at:]
		t, v := parseTag(rest, false, end)
		if v == more {
			s.held = rest
			break
		}
		if v == yes && (s.open != 0 || !s.mention) {
			s.take(t)
			rest = rest[t.size:]
			continue
		}
		s.pass(&out, rest[:size])
		rest = rest[size:]
	}
	return out.String()
}

// pass lets text through, unless a block is open.
func (s *Scrubber) pass(out *strings.Builder, text string) {
	if s.open != 0 || text == "" {
		return
	}
	out.WriteString(text)
	s.mention = strings.HasSuffix(text, "`")
}

// take leaves a tag out, and opens or closes a block by it.
func (s *Scrubber) take(t tag) {
	switch {
	case s.open == 0 && !t.closing:
		s.open = t.kind
	case s.open == t.kind && t.closing:
		s.open = 0
		s.mention = false
	}
}

// partialRune returns how many bytes at the end of s begin a character that is
// not complete.
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
