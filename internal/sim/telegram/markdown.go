package telegram

import (
	"strings"
)

// A span is an open entity of a Markdown text.
type span struct {
	kind   string
	arg    string
	offset int // UTF-16 units
	source int // byte offset in the source
	begin  int // byte offset in the result
}

type markdownParser struct {
	text  source
	i     int
	out   builder
	open  []span
	done  []Entity
	quote bool
}

var spanNames = map[string]string{
	"bold": "Bold", "italic": "Italic", "underline": "Underline", "strikethrough": "Strikethrough",
	"spoiler": "Spoiler", "code": "Code", "pre": "Pre", "text_link": "TextUrl",
	"custom_emoji": "CustomEmoji", "blockquote": "BlockQuote",
}

// parseMarkdownV2 parses parse_mode MarkdownV2.
func parseMarkdownV2(text source) (rich, *apiError) {
	p := &markdownParser{text: text}
	for ; p.i < len(text); p.i++ {
		c := text[p.i]
		if next := text.at(p.i + 1); c == '\\' && next > 0 && next <= 126 {
			p.i++
			p.out.byte(next)
			continue
		}
		reserved := "_*[]()~`>#+-=|{}.!\n"
		if kind := p.top(); kind == "code" || kind == "pre" {
			reserved = "`"
		}
		if strings.IndexByte(reserved, c) < 0 {
			p.out.byte(c)
			continue
		}
		var err *apiError
		if p.endsHere(c) {
			err = p.close(c)
		} else {
			err = p.begin(c)
		}
		if err != nil {
			return rich{}, err
		}
	}
	if p.quote && p.top() == "blockquote" {
		p.finish(p.pop())
	}
	if len(p.open) > 0 {
		return rich{}, p.unclosed()
	}
	return rich{text: p.out.String(), entities: p.done}, nil
}

func (p *markdownParser) top() string {
	if len(p.open) == 0 {
		return ""
	}
	return p.open[len(p.open)-1].kind
}

func (p *markdownParser) pop() span {
	last := p.open[len(p.open)-1]
	p.open = p.open[:len(p.open)-1]
	return last
}

func (p *markdownParser) unclosed() *apiError {
	last := p.open[len(p.open)-1]
	return syntax("Can't find end of %s entity at byte offset %d", spanNames[last.kind], last.source)
}

func (p *markdownParser) finish(s span) {
	if length := p.out.units - s.offset; length > 0 {
		p.done = append(p.done, Entity{Type: s.kind, Offset: s.offset, Length: length, Language: s.arg})
	}
}

// endsHere reports whether c ends the innermost open entity.
func (p *markdownParser) endsHere(c byte) bool {
	if len(p.open) == 0 {
		return false
	}
	next := p.text.at(p.i + 1)
	if p.quote && c == '\n' && next != '>' {
		return true
	}
	switch p.top() {
	case "bold":
		return c == '*'
	case "italic":
		return c == '_' && next != '_'
	case "underline":
		return c == '_' && next == '_'
	case "strikethrough":
		return c == '~'
	case "spoiler":
		return c == '|' && next == '|'
	case "code":
		return c == '`'
	case "pre":
		return c == '`' && next == '`' && p.text.at(p.i+2) == '`'
	case "text_link", "custom_emoji":
		return c == ']'
	}
	return false
}

func (p *markdownParser) reserved(c byte) *apiError {
	return syntax("Character '%c' is reserved and must be escaped with the preceding '\\'", c)
}

// begin opens the entity that starts with c.
func (p *markdownParser) begin(c byte) *apiError {
	s := span{source: p.i}
	next := p.text.at(p.i + 1)
	switch {
	case c == '\n':
		p.out.byte('\n')
		if next != '>' {
			return nil
		}
		p.i++
		if p.quote {
			return nil
		}
		s.kind, p.quote = "blockquote", true
	case c == '>' && p.i == 0:
		s.kind, p.quote = "blockquote", true
	case c == '_' && next == '_':
		s.kind = "underline"
		p.i++
	case c == '_':
		s.kind = "italic"
	case c == '*':
		s.kind = "bold"
	case c == '~':
		s.kind = "strikethrough"
	case c == '|' && next == '|':
		s.kind = "spoiler"
		p.i++
	case c == '[':
		s.kind = "text_link"
	case c == '!' && next == '[':
		s.kind = "custom_emoji"
		p.i++
	case c == '`' && next == '`' && p.text.at(p.i+2) == '`':
		s.kind, s.arg = "pre", p.fence()
	case c == '`':
		s.kind = "code"
	default:
		return p.reserved(c)
	}
	s.offset, s.begin = p.out.units, p.out.Len()
	p.open = append(p.open, s)
	return nil
}

// fence parses the opening of a pre block and returns its language.
func (p *markdownParser) fence() string {
	p.i += 3
	end := p.i
	for !isSpace(p.text.at(end)) && p.text.at(end) != '`' {
		end++
	}
	language := ""
	if end != p.i && end < len(p.text) && p.text[end] != '`' {
		language = string(p.text[p.i:end])
		p.i = end
	}
	if c := p.text.at(p.i); c == '\n' || c == '\r' {
		if next := p.text.at(p.i + 1); (next == '\n' || next == '\r') && next != c {
			p.i++
		}
		p.i++
	}
	p.i--
	return language
}

// close ends the innermost entity at c.
func (p *markdownParser) close(c byte) *apiError {
	if c == '\n' && p.top() != "blockquote" {
		return p.unclosed()
	}
	s := p.pop()
	switch s.kind {
	case "underline", "spoiler":
		p.i++
	case "pre":
		p.i += 2
	case "blockquote":
		p.quote = false
		p.out.byte(c)
	case "text_link":
		return p.closeLink(s)
	case "custom_emoji":
		return p.closeEmoji(s)
	}
	p.finish(s)
	return nil
}

func (p *markdownParser) closeLink(s span) *apiError {
	address := p.out.String()[s.begin:]
	if p.text.at(p.i+1) == '(' {
		var err *apiError
		if address, err = p.address("URL"); err != nil {
			return err
		}
	}
	if length := p.out.units - s.offset; length > 0 {
		if e, ok := linkEntity(address, s.offset, length); ok {
			p.done = append(p.done, e)
		}
	}
	return nil
}

func (p *markdownParser) closeEmoji(s span) *apiError {
	if p.text.at(p.i+1) != '(' {
		return syntax("Custom emoji entity must contain a tg://emoji URL")
	}
	address, err := p.address("custom emoji URL")
	if err != nil {
		return err
	}
	id, ok := strings.CutPrefix(address, "tg://emoji?id=")
	if !ok {
		return syntax("Custom emoji URL must have an emoji identifier")
	}
	e, err := emojiEntity(id, s.offset, p.out.units-s.offset)
	if err != nil {
		return err
	}
	if e.Length > 0 {
		p.done = append(p.done, e)
	}
	return nil
}

// address parses "(...)" after the current position.
func (p *markdownParser) address(what string) (string, *apiError) {
	p.i += 2
	start := p.i
	var address strings.Builder
	for p.i < len(p.text) && p.text[p.i] != ')' {
		if next := p.text.at(p.i + 1); p.text[p.i] == '\\' && next > 0 && next <= 126 {
			p.i++
		}
		_ = address.WriteByte(p.text[p.i])
		p.i++
	}
	if p.text.at(p.i) != ')' {
		return "", syntax("Can't find end of a %s at byte offset %d", what, start)
	}
	return address.String(), nil
}

// parseMarkdown parses the legacy parse_mode Markdown, which has neither
// nesting nor strikethrough.
func parseMarkdown(text source) (rich, *apiError) {
	p := &markdownParser{text: text}
	for ; p.i < len(text); p.i++ {
		c := text[p.i]
		if next := text.at(p.i + 1); c == '\\' && strings.IndexByte("_*`[", next) >= 0 && next != 0 {
			p.i++
			p.out.byte(next)
			continue
		}
		if strings.IndexByte("_*`[", c) < 0 {
			p.out.byte(c)
			continue
		}
		start := p.i
		s := span{kind: map[byte]string{'_': "italic", '*': "bold", '`': "code", '[': "text_link"}[c], source: start}
		mark := map[byte]string{'_': "_", '*': "*", '`': "`", '[': "]"}[c]
		p.i++
		if c == '`' && text.at(start+1) == '`' && text.at(start+2) == '`' {
			p.i = start
			s.kind, s.arg, mark = "pre", p.fence(), "```"
			p.i++
		}
		length := strings.Index(string(text[min(p.i, len(text)):]), mark)
		if length < 0 {
			return rich{}, syntax("Can't find end of the entity starting at byte offset %d", start)
		}
		s.offset, s.begin = p.out.units, p.out.Len()
		for _, b := range []byte(text[p.i : p.i+length]) {
			p.out.byte(b)
		}
		p.i += length + len(mark) - 1
		if s.kind != "text_link" {
			p.finish(s)
			continue
		}
		if err := p.closeLink(s); err != nil {
			return rich{}, err
		}
	}
	return rich{text: p.out.String(), entities: p.done}, nil
}
