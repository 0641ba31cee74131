package chat

// RichText is text with styles, independent of any platform's markup. Markdown is
// parsed into it once; adapters turn it into their platform's own form.
type RichText struct {
	Text  string `json:"t"`
	Spans []Span `json:"s,omitempty"` // ordered by Start; nested or disjoint, never crossing
}

// A Style is how a span of text looks.
type Style string

// The styles. Block styles (Pre, Block) start and end at line boundaries.
const (
	Bold       Style = "b"
	Italic     Style = "i"
	Strike     Style = "s"
	Code       Style = "c"
	CodeBlock  Style = "p" // Span.Arg is the language
	Link       Style = "a" // Span.Arg is the URL
	BlockQuote Style = "q" // block quotation
	Spoiler    Style = "x"
)

// A Span styles Text[Start:End]; offsets are in bytes and lie on the
// boundaries of runes.
type Span struct {
	Start int    `json:"o"`
	End   int    `json:"e"`
	Style Style  `json:"k"`
	Arg   string `json:"v,omitempty"`
}

// PlainText returns text without any style.
func PlainText(text string) RichText { return RichText{Text: text} }
