package files

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A span is a part of a text and its replacement.
type span struct {
	from, to int
	text     string
}

// A matchRule defines when two lines count as equal. Rules are tried in order, from strict
// to loose; none of them ignores differences in words.
type matchRule struct {
	name string
	form func(line string) string
}

// matchRules is never changed.
var matchRules = []matchRule{
	{"spaces at the ends of lines aside", func(l string) string { return strings.TrimRight(l, " \t\r") }},
	{"indentation aside", strings.TrimSpace},
	{"spacing aside", collapseSpaces},
	{"typographic characters aside", func(l string) string { return collapseSpaces(typographic.Replace(l)) }},
}

var (
	typographic = strings.NewReplacer("\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`, "\u2013", "-", "\u2014", "-", "\u2212", "-",
		"\u2026", "...", "\u00a0", " ", "\u202f", " ", "\u200b", "", "\ufeff", "")
	escaped = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\'`, "'", `\\`, `\`)
	runs    = regexp.MustCompile(`\s+`)
)

func collapseSpaces(l string) string { return strings.TrimSpace(runs.ReplaceAllString(l, " ")) }

// find returns the places of old in a text with their replacements, and the rule that
// matched, "" for exact matches. Places may overlap: overlapping places are ambiguous, like
// separate ones.
func find(file, old, text string) (spans []span, how string) {
	if spans = findExact(file, old, text); len(spans) > 0 {
		return spans, ""
	}
	for _, l := range matchRules {
		if spans = byLines(file, old, text, l.form); len(spans) > 0 {
			return spans, l.name
		}
	}
	if plain := escaped.Replace(old); plain != old {
		if spans = findExact(file, plain, escaped.Replace(text)); len(spans) > 0 {
			return spans, "escapes read as what they stand for"
		}
	}
	return nil, ""
}

func findExact(file, old, text string) []span {
	var out []span
	for at := 0; ; {
		i := strings.Index(file[at:], old)
		if i < 0 {
			return out
		}
		out = append(out, span{at + i, at + i + len(old), text})
		at += i + 1
	}
}

// byLines finds whole lines that are equal to those of old under form.
func byLines(file, old, text string, form func(string) string) []span {
	want := strings.Split(strings.Trim(old, "\r\n"), "\n")
	forms := make([]string, len(want))
	for i, l := range want {
		forms[i] = form(l)
	}
	if strings.Join(forms, "") == "" {
		return nil // blank lines would match anywhere
	}
	lines := strings.SplitAfter(file, "\n")
	have := make([]string, len(lines))
	for i, l := range lines {
		have[i] = form(strings.TrimSuffix(l, "\n"))
	}
	var out []span
	at := 0
	for i := range len(lines) - len(forms) + 1 {
		if slices.Equal(have[i:i+len(forms)], forms) {
			block := strings.Join(lines[i:i+len(forms)], "")
			out = append(out, span{at, at + len(block), fitReplacement(block, want, text)})
		}
		at += len(lines[i])
	}
	return out
}

// fitReplacement returns text with the indentation and line ends of the block that it replaces.
func fitReplacement(block string, old []string, text string) string {
	if text == "" {
		return ""
	}
	first, _, _ := strings.Cut(block, "\n")
	from, to := indent(old[0]), indent(first)
	lines := strings.Split(strings.Trim(text, "\r\n"), "\n")
	if from != to {
		for i, l := range lines {
			if rest, ok := strings.CutPrefix(l, from); ok && strings.TrimSpace(l) != "" {
				lines[i] = to + rest
			}
		}
	}
	end := "\n"
	if strings.HasSuffix(first, "\r") {
		end = "\r\n"
	}
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	out := strings.Join(lines, end)
	if strings.HasSuffix(block, "\n") {
		out += end
	}
	return out
}

func indent(l string) string { return l[:len(l)-len(strings.TrimLeft(l, " \t"))] }

func withoutOverlaps(spans []span) (out []span) {
	end := 0
	for _, s := range spans {
		if s.from >= end {
			out, end = append(out, s), s.to
		}
	}
	return out
}

// replaceSpans returns a text with its spans replaced. They must not overlap.
func replaceSpans(file string, spans []span) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(file[at:s.from])
		b.WriteString(s.text)
		at = s.to
	}
	b.WriteString(file[at:])
	return b.String()
}

func lineNumbers(file string, spans []span) string {
	const maxPlaces = 10
	var at []string
	for i, s := range spans {
		if i == maxPlaces {
			at = append(at, "…")
			break
		}
		at = append(at, fmt.Sprint(1+strings.Count(file[:s.from], "\n")))
	}
	return strings.Join(at, ", ")
}

const (
	maxCompared = 20_000 // lines compared to find the nearest
	maxWidth    = 200    // characters of a line shown
)

// nearest returns, with line numbers, the lines of a text around the one most similar to
// the first non-blank line of old; "" if none is similar.
func nearest(file, old string) string {
	var want []string
	for l := range strings.Lines(old) {
		if want = tokens(l); len(want) > 0 {
			break
		}
	}
	lines := strings.Split(file, "\n")
	best, at := 0.0, -1
	for i, l := range lines[:min(len(lines), maxCompared)] {
		if s := similar(want, tokens(l)); s > best {
			best, at = s, i
		}
	}
	if best < 0.4 {
		return ""
	}
	var b strings.Builder
	for i := max(at-2, 0); i < min(at+3, len(lines)); i++ {
		fmt.Fprintf(&b, "%d|%s\n", i+1, cut(strings.TrimRight(lines[i], "\r"), maxWidth))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var word = regexp.MustCompile(`[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]`)

func tokens(l string) []string { return word.FindAllString(l, 64) }

// similar returns the share of words that two lines have in common, from 0 to 1.
func similar(a, b []string) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	left := map[string]int{}
	for _, w := range a {
		left[w]++
	}
	same := 0
	for _, w := range b {
		if left[w] > 0 {
			left[w]--
			same++
		}
	}
	return 2 * float64(same) / float64(len(a)+len(b))
}
