package session

import (
	"strings"
	"unicode"
)

// maxSpeaker is the greatest length of a speaker's name in characters.
const maxSpeaker = 40

// nameless stands for somebody whose name has nothing that can be shown.
const nameless = "somebody"

// CleanSpeakerName returns name as it may stand in the `[name] ` ahead of a message in a
// shared session: on one line, at most 40 characters, without brackets and
// without characters that cannot be seen. A name comes from outside; what is
// left of it cannot end the bracket, begin a line or pose as a tag. It is never
// empty.
func CleanSpeakerName(name string) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range name {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case hidden(r):
			continue
		}
		if space && n < maxSpeaker-1 {
			b.WriteByte(' ')
			n++
		}
		space = false
		if n++; n > maxSpeaker {
			break
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return nameless
	}
	return b.String()
}

// hidden reports whether r is left out of names: brackets of any script,
// characters without a shape of their own, and those that change the direction
// of others.
func hidden(r rune) bool {
	switch r {
	case '<', '>', '＜', '＞', unicode.ReplacementChar:
		return true
	case '(', ')':
		return false
	}
	return unicode.In(r, unicode.Ps, unicode.Pe, unicode.C) || !unicode.IsGraphic(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
