package chat

// RichText is text with styles, independent of any platform's markup. Package markup
// parses Markdown into it; adapters convert it to the form of their platform.
type RichText struct {
	Text  string `json:"t"`
	Spans []Span `json:"s,omitempty"` // ordered by Start; nested or disjoint, never crossing
}

// A Style is the style of a span of text.
type Style string

// The styles. CodeBlock and BlockQuote start and end at line boundaries.
const (
	Bold       Style = "b"
	Italic     Style = "i"
	Strike     Style = "s"
	Code       Style = "c"
	CodeBlock  Style = "p" // Span.Arg is the language
	Link       Style = "a" // Span.Arg is the URL
	BlockQuote Style = "q"
	Spoiler    Style = "x"
)

// A Span styles Text[Start:End]. Offsets are in bytes and at rune boundaries.
type Span struct {
	Start int    `json:"o"`
	End   int    `json:"e"`
	Style Style  `json:"k"`
	Arg   string `json:"v,omitempty"`
}

// PlainText returns text as RichText without styles.
func PlainText(text string) RichText { return RichText{Text: text} }
