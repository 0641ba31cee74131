package mrkdwn

import (
	"sort"
	"strings"

	"hermesd/gateway/chat"
)

// Sections returns r as mrkdwn in pieces of at most limit UTF-16 units each, cut
// at line ends where possible. A style, a link or preformatted text that is cut
// is complete in each piece.
func Sections(r chat.RichText, limit int) []string {
	r.Text = strings.ToValidUTF8(r.Text, "\uFFFD")
	var out []string
	for from := 0; from < len(r.Text); {
		to := next(r, from, limit)
		if piece := strings.Trim(Render(part(r, from, to)), "\n"); strings.TrimSpace(piece) != "" {
			out = append(out, piece)
		}
		from = to
	}
	return out
}

// next returns the end of the piece that starts at from.
func next(r chat.RichText, from, limit int) int {
	fits := func(to int) bool { return Size(part(r, from, to)) <= limit }
	if fits(len(r.Text)) {
		return len(r.Text)
	}
	// Rendering never shortens a text: what is beyond end cannot fit.
	end := min(len(r.Text), from+4*limit)
	if to := last(ends(r.Text, from, end, "\n"), fits); to > from {
		return to
	}
	if to := last(ends(r.Text, from, end, " "), fits); to > from {
		return to
	}
	if to := last(ends(r.Text, from, end, ""), fits); to > from {
		return to
	}
	for to := from + 1; ; to++ { // a single character whose styles alone are too long
		if edge(r.Text, to) {
			return to
		}
	}
}

// ends returns the positions in s[from:end] after each sep; after each rune if
// sep is empty.
func ends(s string, from, end int, sep string) []int {
	var out []int
	for i := from + 1; i <= end; i++ {
		if edge(s, i) && (sep == "" || s[i-1:i] == sep) {
			out = append(out, i)
		}
	}
	return out
}

// last returns the last position that fits, 0 if none does.
func last(places []int, fits func(int) bool) int {
	n := sort.Search(len(places), func(i int) bool { return !fits(places[i]) })
	if n == 0 {
		return 0
	}
	return places[n-1]
}

// part returns r.Text[from:to] with its styles.
func part(r chat.RichText, from, to int) chat.RichText {
	out := chat.RichText{Text: r.Text[from:to]}
	for _, s := range r.Spans {
		s.Start, s.End = max(s.Start, from)-from, min(s.End, to)-from
		if s.Start < s.End {
			out.Spans = append(out.Spans, s)
		}
	}
	return out
}
