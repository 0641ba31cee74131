package telegram

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// finders are the patterns of the entities that the server finds in every text,
// highest precedence first.
var finders = []struct {
	kind string
	expr *regexp.Regexp
}{
	{"url", regexp.MustCompile(`(?i)\bhttps?://[^\s<>"]*[^\s<>".,;:!?')\]]`)},
	{"email", regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`)},
	{"bot_command", regexp.MustCompile(`/[A-Za-z0-9_]{1,64}(?:@[A-Za-z][A-Za-z0-9_]{2,31})?`)},
	{"mention", regexp.MustCompile(`@[A-Za-z][A-Za-z0-9_]{2,31}`)},
	{"hashtag", regexp.MustCompile(`#[\pL\d_]*[\pL_][\pL\d_]*`)},
	{"url", regexp.MustCompile(`(?i)\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|me|ru|de|info)\b(?:/[^\s<>"]*[^\s<>".,;:!?')\]])?`)},
}

// find returns the mentions, commands, links, hashtags and addresses in a text.
func find(text string) []Entity {
	if !strings.ContainsAny(text, "@/#.") {
		return nil
	}
	type piece struct {
		from, to int
		kind     string
	}
	var found []piece
	for _, f := range finders {
		for _, at := range f.expr.FindAllStringIndex(text, -1) {
			p := piece{at[0], at[1], f.kind}
			taken := slices.ContainsFunc(found, func(q piece) bool { return p.from < q.to && q.from < p.to })
			if !taken && standsAlone(text, p.from, p.to, f.kind) {
				found = append(found, p)
			}
		}
	}
	var out []Entity
	for _, p := range found {
		out = append(out, Entity{Type: p.kind, Offset: units(text[:p.from]), Length: units(text[p.from:p.to])})
	}
	sortEntities(out)
	return out
}

// standsAlone reports whether a command, mention or hashtag has no adjacent
// letter or digit, which would make it part of a longer word.
func standsAlone(text string, from, to int, kind string) bool {
	if kind == "url" || kind == "email" {
		return true
	}
	word := func(c byte) bool { return isAlnum(c) || c == '_' || c >= 0x80 }
	if from > 0 && (word(text[from-1]) || kind == "bot_command" && strings.IndexByte("/<>", text[from-1]) >= 0) {
		return false
	}
	return to >= len(text) || !word(text[to]) && (kind != "bot_command" || text[to] != '/')
}

// addFound adds each found entity that does not overlap a given one.
func addFound(given, found []Entity) []Entity {
	if len(found) == 0 {
		return given
	}
	out := slices.Clone(given)
	for _, f := range found {
		blocked := slices.ContainsFunc(given, func(e Entity) bool {
			if splittable(e.Type) || quoting(e.Type) {
				return overlaps(e, f) && !contains(e, f) && !contains(f, e)
			}
			return overlaps(e, f)
		})
		if !blocked {
			out = append(out, f)
		}
	}
	sortEntities(out)
	return out
}

// part returns the part of the text that an entity covers.
func part(text string, e Entity) string {
	u := utf16.Encode([]rune(text))
	if e.Offset < 0 || e.Length < 0 || e.end() > len(u) {
		return ""
	}
	return string(utf16.Decode(u[e.Offset:e.end()]))
}
