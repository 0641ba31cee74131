package markup

import "strings"

// Code returns text, which must be one line, as Markdown code, so that none of it is
// markup.
func Code(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if fence != "`" { // Markdown removes one space at both ends
		text = " " + text + " "
	}
	return fence + text + fence
}
