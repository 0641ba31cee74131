package markup

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"hermesd/gateway/chat"
)

// inlines writes the children of n. Its recursion is bounded by maxInline.
func (b *builder) inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.inline(c)
	}
}

func (b *builder) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		s := string(n.Value(b.src))
		if !n.IsRaw() {
			s = unescape(s)
		}
		b.text(s)
		if n.NextSibling() != nil && (n.SoftLineBreak() || n.HardLineBreak()) {
			b.breakLine()
		}
	case *ast.String:
		b.text(string(n.Value))
	case *ast.CodeSpan:
		b.styled(chat.Code, "", func() { b.codeSpan(n) })
	case *ast.Emphasis:
		style := chat.Italic
		if n.Level == 2 {
			style = chat.Bold
		}
		b.styled(style, "", func() { b.inlines(n) })
	case *extast.Strikethrough:
		b.styled(chat.Strike, "", func() { b.inlines(n) })
	case *ast.Link:
		b.link(n, string(n.Destination))
	case *ast.Image:
		b.link(n, string(n.Destination))
	case *ast.AutoLink:
		b.autoLink(n)
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			seg := n.Segments.At(i)
			b.text(string(seg.Value(b.src)))
		}
	case *extast.TaskCheckBox: // written by the list
	default:
		b.inlines(n)
	}
}

// codeSpan writes the code; a line feed in it counts as a space.
func (b *builder) codeSpan(n *ast.CodeSpan) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.text(strings.ReplaceAll(string(t.Value(b.src)), "\n", " "))
		}
	}
}

// link writes the text of a link or an image as a link or, if safeURL rejects its
// target, followed by the target in parentheses.
func (b *builder) link(n ast.Node, dest string) {
	dest = unescape(dest)
	target, ok := safeURL(dest)
	if ok && len(target) <= b.urlBudget && !slices.Contains(b.styles, chat.Link) {
		start := len(b.out)
		b.styled(chat.Link, target, func() {
			b.inlines(n)
			if isBlank(string(b.out[start:])) {
				b.text(target)
			}
		})
		b.urlBudget -= len(target)
		return
	}
	start := len(b.out)
	b.inlines(n)
	dest = strings.TrimSpace(sanitize(dest))
	if dest == "" || len(dest) > b.urlBudget || string(b.out[start:]) == dest || slices.Contains(b.styles, chat.Link) {
		return
	}
	b.urlBudget -= len(dest)
	if len(b.out) == start {
		b.text(dest)
		return
	}
	b.text(" (" + dest + ")")
}

func (b *builder) autoLink(n *ast.AutoLink) {
	label, dest := string(n.Label(b.src)), string(n.URL(b.src))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(dest), "mailto:") {
		dest = "mailto:" + dest
	}
	target, ok := safeURL(dest)
	if !ok || len(target) > b.urlBudget {
		b.text(label)
		return
	}
	b.urlBudget -= len(target)
	b.styled(chat.Link, target, func() { b.text(label) })
}

// safeURL returns s in a form that is valid in every platform's markup. ok is false if
// s is not an allowed link target.
func safeURL(s string) (target string, ok bool) {
	s = strings.TrimSpace(s)
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || len(s) > maxURL || !utf8.ValidString(s) {
		return "", false
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "http", "https":
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" {
			return "", false
		}
	case "mailto", "tel", "sms", "tg", "slack", "discord", "matrix", "xmpp", "geo":
		if isBlank(strings.Trim(rest, "/")) {
			return "", false
		}
	default:
		return "", false
	}
	s = escapeURL(scheme + ":" + rest)
	return s, len(s) <= maxURL
}

// escapeURL percent-encodes invisible characters and characters that would end a link
// in the markup of some platform.
func escapeURL(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("<>\"`\\^{|}", r) || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			for _, c := range []byte(string(r)) {
				b.WriteByte('%')
				b.WriteString(strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// unescape resolves backslash escapes and character references.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		switch {
		case s[i] == '\\' && i+1 < len(s) && util.IsPunct(s[i+1]):
			b.WriteByte(s[i+1])
			i += 2
			continue
		case s[i] == '&':
			if chars, n := reference(s[i:]); n > 0 {
				b.WriteString(chars)
				i += n
				continue
			}
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// reference resolves the character reference at the beginning of s and returns its
// length, 0 if there is none.
func reference(s string) (chars string, n int) {
	const longest = 33 // &CounterClockwiseContourIntegral;
	end := strings.IndexByte(s[:min(len(s), longest)], ';')
	if end < 2 {
		return "", 0
	}
	name := s[1:end]
	digits, numeric := strings.CutPrefix(name, "#")
	if !numeric {
		if e, ok := util.LookUpHTML5EntityByName(name); ok {
			return string(e.Characters), end + 1
		}
		return "", 0
	}
	base := 10
	if hex := strings.TrimLeft(digits, "xX"); len(hex) == len(digits)-1 {
		digits, base = hex, 16
	}
	if len(digits) > 7 || strings.ContainsAny(digits, "+-_") {
		return "", 0
	}
	v, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return "", 0
	}
	return string(util.ToValidRune(rune(v))), end + 1
}
