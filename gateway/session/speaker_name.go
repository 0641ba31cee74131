package session

import (
	"strings"
	"unicode"
)

// maxSpeakerName is the maximum length of a speaker's name in characters.
const maxSpeakerName = 40

// unnamedSpeaker replaces a name without visible characters.
const unnamedSpeaker = "somebody"

// CleanSpeakerName returns name in the form used in the `[name] ` before a message of a
// shared session: one line of at most 40 characters without brackets and invisible
// characters. The name is untrusted; the result cannot end the bracket, start a line or
// look like a tag. It is never empty.
func CleanSpeakerName(name string) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range name {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case isHidden(r):
			continue
		}
		if space && n < maxSpeakerName-1 {
			b.WriteByte(' ')
			n++
		}
		space = false
		if n++; n > maxSpeakerName {
			break
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return unnamedSpeaker
	}
	return b.String()
}

// isHidden reports whether r is removed from names: brackets of any script, characters
// without a glyph, and those that change the direction of others.
func isHidden(r rune) bool {
	switch r {
	case '<', '>', '＜', '＞', unicode.ReplacementChar:
		return true
	case '(', ')':
		return false
	}
	return unicode.In(r, unicode.Ps, unicode.Pe, unicode.C) || !unicode.IsGraphic(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
