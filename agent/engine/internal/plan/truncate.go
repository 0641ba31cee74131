package plan

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/tool"
)

// minShare is the number of tokens to which a text is truncated at most: its
// beginning, its end and the note between them.
const minShare = 64

const noteTokens = 32

var notePattern = regexp.MustCompile(`\n\[… (\d+) characters are left out here; the whole text is row (\d+) of this conversation …\]\n`)

// note returns the text that stands for n characters of row.
func note(n, row int) string {
	return fmt.Sprintf("\n[… %d characters are left out here; the whole text is row %d of this conversation …]\n", n, row)
}

// Truncate returns ms shortened to at most limit tokens, as far as possible: a
// note stands in place of the middle of long texts, and of pictures. The newest
// user message is shortened last; summaries stay. row returns the number of a
// message in the whole transcript, which the notes name. A text that was
// truncated before keeps the number in its note.
func Truncate(ms []llm.Message, limit int, row func(i int) int) []llm.Message {
	t := truncation{ms: slices.Clone(ms), row: row, left: Tokens(ms) - limit}
	newest := NewestUser(ms)
	var older, last []unit
	for i, m := range ms {
		for k, b := range m.Blocks {
			u := unit{i, k, blockTokens(b)}
			switch {
			case u.size <= minShare || b.Type == llm.Thinking || strings.HasPrefix(b.Text, SummaryHeading):
			case i == newest && b.Type != llm.ToolResult:
				last = append(last, u)
			default:
				older = append(older, u)
			}
		}
	}
	t.shorten(older)
	t.shorten(last)
	return t.ms
}

// A unit is a block that can be shortened, with its tokens.
type unit struct{ message, block, size int }

func blockTokens(b llm.Block) int {
	switch b.Type {
	case llm.Image:
		return tokens.PerImage
	case llm.ToolUse:
		return tokens.Text(string(b.Input))
	}
	return tokens.Text(b.Text)
}

type truncation struct {
	ms   []llm.Message
	row  func(i int) int
	left int // tokens that are too many
}

// shorten shortens the largest units to equal sizes until nothing is left.
func (t *truncation) shorten(us []unit) {
	for t.left > 0 && len(us) > 0 {
		sizes, total := make([]int, len(us)), 0
		for i, u := range us {
			sizes[i] = u.size
			total += u.size
		}
		share := max(tool.FairShare(sizes, max(total-t.left, 0)), minShare)
		picture := slices.IndexFunc(us, func(u unit) bool {
			return u.size > share && t.ms[u.message].Blocks[u.block].Type == llm.Image
		})
		if picture >= 0 { // the others can stay larger without it
			t.replace(us[picture], llm.Block{Type: llm.Text, Text: fmt.Sprintf("[A picture is left out here; it is in row %d of this conversation]", t.row(us[picture].message))})
			us = slices.Delete(us, picture, picture+1)
			continue
		}
		for _, u := range us {
			if u.size > share {
				t.replace(u, t.shortened(u, share))
			}
		}
		return
	}
}

func (t *truncation) replace(u unit, b llm.Block) {
	m := t.ms[u.message]
	t.left -= tokens.Message(m)
	m.Blocks = slices.Clone(m.Blocks)
	m.Blocks[u.block] = b
	m.Raw, m.Dialect = nil, ""
	t.ms[u.message] = m
	t.left += tokens.Message(m)
}

// shortened returns a block with at most share tokens.
func (t *truncation) shortened(u unit, share int) llm.Block {
	b, row := t.ms[u.message].Blocks[u.block], t.row(u.message)
	if b.Type != llm.ToolUse {
		b.Text = truncateText(b.Text, share, row)
		return b
	}
	if in, ok := shortenInput(b.Input); ok && tokens.Text(string(in)) <= share {
		b.Input = in
		return b
	}
	raw, err := json.Marshal(map[string]string{"left_out": strings.TrimSpace(note(utf8.RuneCount(b.Input), row))})
	if err == nil { // it always is: strings
		b.Input = raw
	}
	return b
}

// truncateText returns the beginning and the end of text, about share tokens
// together, with a note between them.
func truncateText(text string, share, row int) string {
	head, tail, n := text, "", 0
	if at := notePattern.FindStringSubmatchIndex(text); at != nil {
		head, tail = text[:at[0]], text[at[1]:]
		n, _ = strconv.Atoi(text[at[2]:at[3]])
		row, _ = strconv.Atoi(text[at[4]:at[5]])
	}
	n += utf8.RuneCountInString(head) + utf8.RuneCountInString(tail)
	room := max(share-noteTokens, 3)
	begin := tokens.Prefix(head, room*2/3)
	if tail == "" {
		tail = head[len(begin):]
	}
	end := tokens.Suffix(tail, room/3)
	return begin + note(n-utf8.RuneCountInString(begin)-utf8.RuneCountInString(end), row) + end
}
