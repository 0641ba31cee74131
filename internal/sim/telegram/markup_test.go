package telegram_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/internal/sim/telegram"
)

// marks formats entities as "bold 0+4".
func marks(list []telegram.Entity) string {
	var out []string
	for _, e := range list {
		s := e.Type + " " + itoa(e.Offset) + "+" + itoa(e.Length)
		if more := e.URL + e.Language + e.CustomEmojiID; more != "" {
			s += " " + more
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestParseModes(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	for _, tc := range []struct{ mode, in, text, marks string }{
		{"HTML", "<b>a</b> <i>b</i>", "a b", "bold 0+1, italic 2+1"},
		{"HTML", "<b>a <i>b</i></b>", "a b", "bold 0+3, italic 2+1"},
		{"HTML", "😀<B>x</B>", "😀x", "bold 2+1"},
		{"HTML", "a &lt;b&gt; &amp; &#39;c&#x27; &nope; &", "a <b> & 'c' &nope; &", ""},
		{"HTML", `<a href="https://example.com/?a=1&amp;b=2">x</a>`, "x", "text_link 0+1 https://example.com/?a=1&b=2"},
		{"HTML", `<a href="nonsense">x</a>`, "x", ""},
		{"HTML", `<pre><code class="language-go">f()</code></pre>`, "f()", "pre 0+3 go"},
		{"HTML", `<code class="language-go">f()</code>`, "f()", "code 0+3"},
		{"HTML", `<span class="tg-spoiler">s</span> <tg-spoiler>t</tg-spoiler>`, "s t", "spoiler 0+1, spoiler 2+1"},
		{"HTML", "<blockquote expandable>q</blockquote>", "q", "expandable_blockquote 0+1"},
		{"HTML", `<tg-emoji emoji-id="5368324170671202286">👍</tg-emoji>`, "👍", "custom_emoji 0+2 5368324170671202286"},
		{"HTML", "<u></u>x", "x", ""},
		{"HTML", "<b>x</b  >", "x", "bold 0+1"},
		{"MarkdownV2", "*a* _b_ __c__ ~d~ ||e|| `f`", "a b c d e f",
			"bold 0+1, italic 2+1, underline 4+1, strikethrough 6+1, spoiler 8+1, code 10+1"},
		{"MarkdownV2", "*a _b_ c*", "a b c", "bold 0+5, italic 2+1"},
		{"MarkdownV2", `1\. a\-b \\ \*`, `1. a-b \ *`, ""},
		{"MarkdownV2", "```go\nx := 1\n```", "x := 1", "pre 0+6 go"},
		{"MarkdownV2", "[x](https://example.com/a\\)b)", "x", "text_link 0+1 https://example.com/a)b"},
		{"MarkdownV2", ">q\n>r\nend", "q\nr\nend", "blockquote 0+4"},
		{"Markdown", "*a* _b_ `c` snake\\_case [x](example.com)", "a b c snake_case x",
			"bold 0+1, italic 2+1, code 4+1, text_link 17+1 http://example.com/"},
		{"", "*a* <b>", "*a* <b>", ""},
		{"", "  padded \n\n", "padded", ""},
		{"", "a\r\nb\tc", "a\nb c", ""},
		{"", "see https://example.com/x, @ann and #go at /start@sim_bot", "see https://example.com/x, @ann and #go at /start@sim_bot",
			"url 4+21, mention 27+4, hashtag 36+3, bot_command 43+14"},
		{"", "no/command a@b.example mail", "no/command a@b.example mail", "email 11+11"},
	} {
		a := p.call(t, "sendMessage", "chat_id", "100001", "text", tc.in, "parse_mode", tc.mode)
		if !a.OK {
			t.Errorf("%s %q: %s", tc.mode, tc.in, a.Description)
			continue
		}
		seen := p.dm.FromBots()
		m := seen[len(seen)-1]
		if m.Text != tc.text || marks(m.Entities) != tc.marks {
			t.Errorf("%s %q:\n got %q %s\nwant %q %s", tc.mode, tc.in, m.Text, marks(m.Entities), tc.text, tc.marks)
		}
	}
}

func TestParseErrors(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	for _, tc := range []struct{ mode, in, want string }{
		{"HTML", "a <b>b", `Can't find end tag corresponding to start tag "b"`},
		{"HTML", "a <p>b</p>", `Unsupported start tag "p" at byte offset 2`},
		{"HTML", "1 < 2", `Unsupported start tag "" at byte offset 2`},
		{"HTML", "a <b", `Unclosed start tag at byte offset 2`},
		{"HTML", "a</b>", `Unexpected end tag at byte offset 1`},
		{"HTML", "<b>a</i>", `Unmatched end tag at byte offset 4, expected "</b>", found "</i>"`},
		{"HTML", "<b>a</b", `Unclosed end tag at byte offset 4`},
		{"HTML", "<span>x</span>", `Tag "span" must have class "tg-spoiler" at byte offset 0`},
		{"HTML", "<a href>x</a>", `Expected equal sign in declaration of an attribute of the tag "a" at byte offset 0`},
		{"HTML", `<a href="x`, `Unclosed start tag at byte offset 0`},
		{"HTML", `<tg-emoji emoji-id="x">y</tg-emoji>`, `Invalid custom emoji identifier specified`},
		{"MarkdownV2", "end.", `Character '.' is reserved and must be escaped with the preceding '\'`},
		{"MarkdownV2", "a - b", `Character '-' is reserved and must be escaped with the preceding '\'`},
		{"MarkdownV2", "a | b", `Character '|' is reserved and must be escaped with the preceding '\'`},
		{"MarkdownV2", "a *b", `Can't find end of Bold entity at byte offset 2`},
		{"MarkdownV2", "😀_b", `Can't find end of Italic entity at byte offset 4`},
		{"MarkdownV2", "[x](http://a", `Can't find end of a URL at byte offset 4`},
		{"MarkdownV2", "```go", `Can't find end of Pre entity at byte offset 0`},
		{"Markdown", "snake_case", `Can't find end of the entity starting at byte offset 5`},
	} {
		a := p.call(t, "sendMessage", "chat_id", "100001", "text", tc.in, "parse_mode", tc.mode)
		mustRefuse(t, a, 400, "Bad Request: can't parse entities: "+tc.want)
	}
	mustRefuse(t, p.call(t, "sendMessage", "chat_id", "100001", "text", "x", "parse_mode", "RST"), 400, "Bad Request: unsupported parse_mode")
}

func TestEntities(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	const text = "0123😀6789"
	for _, tc := range []struct {
		name, in, marks, refused string
		corrected                int
	}{
		{name: "as given", in: `[{"type":"bold","offset":0,"length":4}]`, marks: "bold 0+4"},
		{name: "to the very end", in: `[{"type":"bold","offset":0,"length":10}]`, marks: "bold 0+10"},
		{name: "nested", in: `[{"type":"italic","offset":1,"length":2},{"type":"bold","offset":0,"length":4}]`, marks: "bold 0+4, italic 1+2"},
		{name: "crossing styles are cut", in: `[{"type":"bold","offset":0,"length":4},{"type":"italic","offset":2,"length":8}]`,
			marks: "bold 0+2, italic 2+8, bold 2+2", corrected: 1},
		{name: "styles vanish in code", in: `[{"type":"code","offset":0,"length":4},{"type":"bold","offset":1,"length":2}]`, marks: "code 0+4", corrected: 1},
		{name: "a link in code is lost", in: `[{"type":"pre","offset":0,"length":4,"language":"go"},{"type":"text_link","offset":1,"length":2,"url":"https://a.example/"}]`,
			marks: "pre 0+4 go", corrected: 1},
		{name: "empty ones do not count", in: `[{"type":"bold","offset":3,"length":0}]`},
		{name: "found types are not heard", in: `[{"type":"mention","offset":0,"length":4}]`},
		{name: "no JSON is no entities", in: `nonsense`},
		{name: "ends too late", in: `[{"type":"bold","offset":2,"length":9}]`,
			refused: "entity beginning at UTF-16 offset 2 ends after the end of the text at UTF-16 offset 11"},
		{name: "begins too late", in: `[{"type":"bold","offset":11,"length":1}]`, refused: "entity begins after the end of the text at UTF-16 offset 11"},
		{name: "begins inside a surrogate pair", in: `[{"type":"bold","offset":5,"length":2}]`,
			refused: "entity begins in a middle of a UTF-16 symbol at byte offset 8"},
		{name: "ends inside a surrogate pair", in: `[{"type":"bold","offset":0,"length":5}]`,
			refused: "entity beginning at UTF-16 offset 0 ends in a middle of a UTF-16 symbol at byte offset 8"},
		{name: "negative", in: `[{"type":"bold","offset":-1,"length":2}]`, refused: "receive an entity with incorrect offset -1"},
		{name: "no offset", in: `[{"type":"bold","length":2}]`, refused: `can't parse MessageEntity: Field "offset" must be a Number`},
		{name: "unknown type", in: `[{"type":"blink","offset":0,"length":2}]`, refused: "can't parse MessageEntity: Unsupported type specified"},
	} {
		a := p.call(t, "sendMessage", "chat_id", "100001", "text", text, "entities", tc.in)
		if tc.refused != "" {
			mustRefuse(t, a, 400, "Bad Request: "+tc.refused)
			continue
		}
		mustOK(t, a)
		seen := p.dm.FromBots()
		m := seen[len(seen)-1]
		if d := cmp.Diff(tc.marks, marks(m.Entities)); d != "" || m.Corrected != tc.corrected {
			t.Errorf("%s: corrected %d, want %d (-want +got):\n%s", tc.name, m.Corrected, tc.corrected, d)
		}
	}
}

// TestTrimMovesEntities checks that white space at the ends is removed and
// entities are shifted.
func TestTrimMovesEntities(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	mustOK(t, p.call(t, "sendMessage", "chat_id", "100001", "text", "\n  x yy  \n",
		"entities", `[{"type":"bold","offset":5,"length":5}]`))
	m := p.dm.FromBots()[0]
	if m.Text != "x yy" || marks(m.Entities) != "bold 2+2" {
		t.Errorf("got %q %s", m.Text, marks(m.Entities))
	}
}
