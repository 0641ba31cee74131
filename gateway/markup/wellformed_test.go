package markup_test

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// check reports the first way in which r is not well formed: text that is not
// UTF-8, or spans that are empty, out of range, out of order, off the
// boundaries of runes, or crossing. Everything that package markup returns for
// well formed input is well formed.
func check(r chat.RichText) error {
	if !utf8.ValidString(r.Text) {
		return errors.New("text is not UTF-8")
	}
	isBoundary := func(i int) bool { return i == len(r.Text) || utf8.RuneStart(r.Text[i]) }
	var open []int // ends of the spans that enclose the current one
	last := chat.Span{}
	for i, s := range r.Spans {
		if s.Start < 0 || s.End > len(r.Text) || s.Start >= s.End {
			return fmt.Errorf("span %d [%d,%d) is empty or out of range", i, s.Start, s.End)
		}
		if !isBoundary(s.Start) || !isBoundary(s.End) {
			return fmt.Errorf("span %d [%d,%d) cuts a rune", i, s.Start, s.End)
		}
		if i > 0 && (s.Start < last.Start || s.Start == last.Start && s.End > last.End) {
			return fmt.Errorf("span %d [%d,%d) is out of order", i, s.Start, s.End)
		}
		for len(open) > 0 && open[len(open)-1] <= s.Start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1] < s.End {
			return fmt.Errorf("span %d [%d,%d) crosses another", i, s.Start, s.End)
		}
		open = append(open, s.End)
		last = s
	}
	return nil
}

// concat returns the parts one after another, each with its own spans.
func concat(parts ...chat.RichText) chat.RichText {
	var text strings.Builder
	var spans []chat.Span
	for _, p := range parts {
		base := text.Len()
		text.WriteString(p.Text)
		for _, s := range p.Spans {
			s.Start, s.End = s.Start+base, s.End+base
			spans = append(spans, s)
		}
	}
	return chat.RichText{Text: text.String(), Spans: spans}
}

// Two measures for Split.
func runes(r chat.RichText) int      { return utf8.RuneCountInString(r.Text) }
func utf16Units(r chat.RichText) int { return len(utf16.Encode([]rune(r.Text))) }
